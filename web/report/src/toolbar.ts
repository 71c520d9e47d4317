// Above the timeline: search, filters (the legend is one), zoom.

import { NONE } from "./data.ts";
import { h, icon, say } from "./dom.ts";
import { active } from "./filter.ts";
import * as format from "./format.ts";
import { categoryKeys, categoryNames, processName, shortNames, streamName } from "./model.ts";
import type { State } from "./state.ts";

export class Toolbar {
  readonly element: HTMLElement;
  readonly search: HTMLInputElement;
  private readonly result = h("output", { className: "result" });
  private readonly only = h("span", { className: "only", hidden: true });
  private readonly clear: HTMLButtonElement;
  private readonly chips: HTMLButtonElement[] = [];
  private readonly more: HTMLElement;
  private filtered = false;
  private readonly fields: (() => void)[] = []; // each puts the filter's value into its field

  constructor(private readonly state: State, hint: HTMLElement) {
    const { model } = state;
    this.search = h("input", {
      type: "search", id: "search", placeholder: matchMedia("(max-width: 640px)").matches ? "Search" : "Search: d2h stream1 #42", autocomplete: "off", spellcheck: false, "aria-label": "Search tasks and calls",
      oninput: () => state.refine({ words: this.search.value }),
      onkeydown: (e: KeyboardEvent) => {
        if (e.key === "Enter") state.next(e.shiftKey ? -1 : 1);
        if (e.key !== "Escape") return;
        e.preventDefault(); // the browser would empty the box and keep the filter
        if (this.search.value === "") this.search.blur();
        else state.refine({ words: "" });
      },
    });
    this.fields.push(() => {
      if (this.search.value !== state.filter.words) this.search.value = state.filter.words;
    });
    for (const c of model.categories) {
      const chip = h("button", {
        type: "button", className: "chip", "aria-pressed": "true", title: `${categoryNames[c]}: show or dim`, "data-category": categoryKeys[c],
        onclick: () => {
          const off = new Set(state.filter.categories);
          if (!off.delete(c)) off.add(c);
          state.refine({ categories: off });
        },
      }, h("i", { className: categoryKeys[c] }), shortNames[c]);
      this.chips.push(chip);
      this.fields.push(() => chip.setAttribute("aria-pressed", String(!state.filter.categories.has(c))));
    }
    this.clear = h("button", { type: "button", className: "act", hidden: true, onclick: () => state.clearFilter() }, "Clear");
    this.more = h("div", { className: "more", id: "filters", hidden: true }, ...this.form());
    const toggle = h("button", {
      type: "button", className: "act", "aria-expanded": "false", "aria-controls": "filters",
      onclick: () => {
        this.more.hidden = !this.more.hidden;
        toggle.setAttribute("aria-expanded", String(!this.more.hidden));
      },
    }, icon("M2 3h12l-4.7 5.5V13L6.7 14V8.5z"), "Filters");
    const step = (label: string, path: string, f: () => void) =>
      h("button", { type: "button", className: "square", title: label, "aria-label": label, onclick: f }, icon(path));
    this.element = h("div", { className: "toolbar", role: "search" },
      h("div", { className: "line" },
        h("span", { className: "find" }, icon("M7 2a5 5 0 0 1 3.9 8.1l3.5 3.5-.9.9L10 11A5 5 0 1 1 7 2zm0 1.3a3.7 3.7 0 1 0 0 7.4 3.7 3.7 0 0 0 0-7.4z"), this.search),
        step("Previous match (Shift+Enter)", "M8 4.5 3.2 9.3l1 1L8 6.5l3.8 3.8 1-1z", () => state.next(-1)),
        step("Next match (Enter)", "M8 11.5 3.2 6.7l1-1L8 9.5l3.8-3.8 1 1z", () => state.next(1)),
        toggle,
        h("span", { className: "chips", role: "group", "aria-label": "Kinds of work" }, ...this.chips)),
      this.more,
      h("div", { className: "line found" }, this.result, this.only, this.clear,
        h("span", { className: "grow" }),
        h("span", { className: "chips" }, this.arrowToggle(), hint),
        h("span", { className: "zoom" },
          step("Zoom out (S)", "M3 7.3h10v1.4H3z", () => state.zoom(1 / 0.6)),
          step("Zoom in (W)", "M7.3 3h1.4v4.3H13v1.4H8.7V13H7.3V8.7H3V7.3h4.3z", () => state.zoom(0.6)),
          h("button", { type: "button", className: "act", title: "Show the part with work (0)", onclick: () => state.fit() }, "Fit"),
          h("button", { type: "button", className: "act", title: "Show the whole run (9)", onclick: () => state.all() }, "All"))));
    state.listen((change) => {
      if (change === "filter") this.update();
    });
    this.update();
  }

  private arrowToggle(): HTMLElement {
    const { state } = this;
    const button = h("button", {
      type: "button", className: "chip", "aria-pressed": "true", title: "Arrows from submit to run, and across events",
      onclick: () => {
        state.arrows = !state.arrows;
        button.setAttribute("aria-pressed", String(state.arrows));
        state.notify("view");
      },
    }, icon("M2 3.5c5 0 5.5 7 9 7V8l4 3.2-4 3.3V12c-5 0-5.5-7-9-7z"), "Arrows");
    return button;
  }

  private form(): HTMLElement[] {
    const { state } = this;
    const { model } = state;
    const used = new Set(model.calls.function);
    const choice = (label: string, key: "function" | "stream", options: [number, string][]) => {
      const select = h("select", { name: key, onchange: () => state.refine({ [key]: Number(select.value) }) },
        h("option", { value: String(NONE) }, "any"), ...options.map(([v, text]) => h("option", { value: String(v) }, text)));
      this.fields.push(() => (select.value = String(state.filter[key])));
      return h("label", {}, label, select);
    };
    const limit = (label: string, key: "minBytes" | "maxBytes" | "minTime" | "maxTime", hint: string) => {
      const size = key.endsWith("Bytes");
      const input = h("input", {
        type: "text", name: key, placeholder: hint, autocomplete: "off",
        oninput: () => {
          const text = input.value.trim();
          const value = text === "" ? null : size ? format.parseBytes(text) : format.parseTime(text);
          const wrong = text !== "" && value === null;
          input.setAttribute("aria-invalid", String(wrong));
          if (!wrong) state.refine({ [key]: value });
        },
      });
      this.fields.push(() => {
        if (document.activeElement === input) return;
        const v = state.filter[key];
        input.value = v === null ? "" : size ? plainBytes(v) : format.time(v);
        input.removeAttribute("aria-invalid");
      });
      return h("label", {}, label, input);
    };
    const failed = h("input", { type: "checkbox", name: "failed", onchange: () => state.refine({ failed: failed.checked }) });
    this.fields.push(() => (failed.checked = state.filter.failed));
    const streams = model.data.streams.flatMap((s, i): [number, string][] => {
      if (!model.rowOfStream.has(i)) return [];
      const owner = model.data.processes.length > 1 ? model.data.processes[s.process] : undefined;
      const process = owner ? ` of ${processName(owner)}` : "";
      const device = model.data.devices.length > 1 ? `, device ${model.data.devices[s.device]?.id}` : "";
      return [[i, streamName(model, i) + device + process]];
    });
    if (model.tasks.stream.includes(NONE)) streams.push([-2, streamName(model, NONE)]);
    return [
      choice("Function", "function", model.data.functions.flatMap((f, i): [number, string][] => (used.has(i) ? [[i, f]] : []))),
      choice("Stream", "stream", streams),
      limit("Size from", "minBytes", "4K"), limit("Size to", "maxBytes", "1M"),
      limit("Duration from", "minTime", "10us"), limit("Duration to", "maxTime", "2ms"),
      h("label", { className: "check" }, failed, "Failed only"),
    ];
  }

  private update(): void {
    const { state } = this;
    for (const f of this.fields) f();
    const { matches, filter, model } = state;
    const on = active(filter);
    const inside = model.tasks.all - model.tasks.count;
    const part = (n: number, all: number, word: string) => (on ? `${format.count(n)} of ` : "") + format.plural(all, word);
    this.result.textContent = part(matches.tasks, model.tasks.count, "task") + (inside > 0 ? `, ${part(matches.inside, inside, "part")} of models` : "") +
      `, ${part(matches.calls, model.calls.count, "call")}`;
    this.only.hidden = filter.only === null;
    this.only.textContent = filter.only ? filter.only.title : "";
    this.clear.hidden = !on;
    if (on || this.filtered) say(this.result.textContent); // also that there is no filter now
    this.filtered = on;
  }
}

/** plainBytes writes a size that parseBytes reads back exactly. */
function plainBytes(n: number): string {
  for (const [unit, size] of [["G", 2 ** 30], ["M", 2 ** 20], ["K", 2 ** 10]] as const) if (n >= size && n % size === 0) return n / size + unit;
  return String(n);
}
