// The panel beside the timeline: advice, findings, and the details of what is selected.

import { bars } from "./bars.ts";
import { h, say } from "./dom.ts";
import { describe, name } from "./describe.ts";
import * as format from "./format.ts";
import { graph } from "./graph.ts";
import { docs } from "./given.ts";
import { categoryKeys } from "./model.ts";
import { measure } from "./range.ts";
import type { State, Thing } from "./state.ts";

const names = ["advice", "findings", "details"] as const;
type Tab = (typeof names)[number];

export class Panel {
  readonly element: HTMLElement;
  private readonly tabs = new Map<Tab, { button: HTMLButtonElement; body: HTMLElement }>();

  constructor(private readonly state: State) {
    const { data } = state.model;
    const labels: Record<Tab, [string, number | null]> = {
      advice: ["Advice", data.advice.filter((a) => a.tasks.length + a.calls.length > 0).length],
      findings: ["Findings", data.findings.length],
      details: ["Details", null],
    };
    for (const tab of names) {
      if (tab === "findings" && data.findings.length === 0 && !data.checked) continue;
      const [label, count] = labels[tab];
      const button = h("button", {
        type: "button", role: "tab", id: "tab-" + tab, "aria-controls": "panel-" + tab,
        onclick: () => this.open(tab), onkeydown: (e: KeyboardEvent) => this.key(e, tab),
      }, label, count ? h("span", { className: "badge" + (tab === "findings" ? " bad" : "") }, String(count)) : null);
      const body = h("div", { role: "tabpanel", id: "panel-" + tab, "aria-labelledby": "tab-" + tab, tabIndex: 0 });
      this.tabs.set(tab, { button, body });
    }
    const all = [...this.tabs.values()];
    this.element = h("aside", { className: "card panel", "aria-label": "Advice and details" },
      h("div", { role: "tablist", "aria-label": "Advice and details" }, ...all.map((t) => t.button)), ...all.map((t) => t.body));
    this.tabs.get("advice")!.body.append(...this.advice());
    this.tabs.get("findings")?.body.append(...this.findings());
    this.details();
    this.open(data.findings.length > 0 ? "findings" : "advice");
    state.listen((change) => {
      if (change === "selection") this.selected();
      if (change === "range" || (change === "filter" && state.range)) this.selected();
      if (change === "filter") this.pressed();
    });
  }

  open(tab: Tab): void {
    for (const [name, { button, body }] of this.tabs) {
      button.setAttribute("aria-selected", String(name === tab));
      button.tabIndex = name === tab ? 0 : -1;
      body.classList.toggle("closed", name !== tab);
    }
  }

  private key(e: KeyboardEvent, tab: Tab): void {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[e.key];
    if (!step) return;
    e.preventDefault();
    const list = [...this.tabs.keys()];
    const next = list[(list.indexOf(tab) + step + list.length) % list.length];
    this.open(next);
    this.tabs.get(next)!.button.focus();
  }

  // Advice

  private advice(): HTMLElement[] {
    const { data } = this.state.model;
    if (data.advice.length === 0) return [h("p", { className: "empty" }, "No advice for this run.")];
    return data.advice.map((a) => {
      const shown = a.tasks.length + a.calls.length;
      const about = docs("docs/advice.html", `When ${a.rule} is advised`);
      return h("article", { className: "advice" + (shown === 0 ? " fine" : ""), "data-rule": a.rule },
        h("h3", {}, a.title, a.saves > 0 ? h("span", { className: "saves" }, `saves up to ${format.time(a.saves)}`) : null),
        h("p", {}, a.text),
        a.numbers.length > 0 ? h("dl", {}, ...a.numbers.flatMap((n) => [h("dt", {}, n.label), h("dd", {}, n.value)])) : null,
        a.lines.length > 0 ? h("ul", { className: "lines" }, ...a.lines.map((line) => h("li", {}, line))) : null,
        typeof about === "string" ? null : h("p", {}, about),
        shown > 0 ? h("button", {
          type: "button", className: "act", "data-title": a.title, "aria-pressed": "false",
          onclick: () => {
            if (this.state.filter.only?.title === a.title) return this.state.clearFilter();
            this.state.show(a.title, a.tasks, a.calls);
            const first: Thing = a.tasks.length > 0 ? { of: "task", index: a.tasks[0] } : { of: "call", index: a.calls[0] };
            document.querySelector(".timeline")?.scrollIntoView({ block: "nearest" });
            say(`Showing ${format.plural(shown, "place")}, the first is ${describe(this.state.model, first).title}`);
          },
        }, `Show ${a.tasks.length > 0 ? format.plural(a.tasks.length, "task") : format.plural(a.calls.length, "call")} on the timeline`) : null);
    });
  }

  private pressed(): void {
    const title = this.state.filter.only?.title;
    for (const b of this.element.querySelectorAll<HTMLElement>("[data-title]")) b.setAttribute("aria-pressed", String(b.dataset.title === title));
  }

  // Findings

  private findings(): HTMLElement[] {
    const { model } = this.state;
    const { findings } = model.data;
    if (findings.length === 0) return [h("p", { className: "empty" }, "The checker found nothing wrong in this run.")];
    return findings.map((f, i) => h("article", { className: "finding " + f.severity, "data-finding": String(i) },
      h("h3", {}, docs(`docs/check.html#${f.rule}`, f.rule), h("span", { className: "severity" }, f.severity)),
      h("p", {}, f.text),
      f.places.length > 0 ? h("dl", { className: "places" }, ...f.places.flatMap((p) => [h("dt", {}, p.role), h("dd", {}, p.at)])) : null,
      f.remedy ? h("p", { className: "remedy" }, f.remedy) : null,
      h("button", {
        type: "button", className: "act", "aria-label": `Show ${f.rule} on the timeline`, onclick: () => this.state.showFinding(i),
      }, f.tasks.length > 0 ? `Show it on the timeline: ${f.tasks.slice(0, 3).map((t) => name(model, t)).join(", ")}` : "Show it on the timeline"),
      f.report ? h("details", {}, h("summary", {}, "The whole report"), h("pre", {}, f.report)) : null));
  }

  // Details

  private selected(): void {
    const { selected, range } = this.state;
    this.details();
    this.element.classList.toggle("sheet", selected !== null || range !== null); // on a phone it comes to the reader
    for (const e of this.element.querySelectorAll<HTMLElement>("[data-finding]")) {
      e.classList.toggle("chosen", selected?.of === "finding" && e.dataset.finding === String(selected.index));
    }
    if (range) return this.open("details");
    if (!selected) return;
    this.open(selected.of === "finding" ? "findings" : "details");
    this.element.querySelector(".chosen")?.scrollIntoView({ block: "nearest" });
  }

  private details(): void {
    const { model, selected, range, matches } = this.state;
    const body = this.tabs.get("details")!.body;
    const act = (label: string, f: () => void) => h("button", { type: "button", className: "act", onclick: f }, label);
    if (range) {
      body.replaceChildren(h("article", { className: "details" },
        h("h3", {}, matches.all ? "Selected range" : "Selected range, what matches the filter"),
        h("dl", {}, ...measure(model, matches, ...range).flatMap(([k, v]) => [h("dt", {}, k), h("dd", {}, v)])),
        h("div", { className: "acts" }, act("Zoom to it", () => this.state.look(...range)), act("Clear selection", () => this.state.mark(null)))));
      return;
    }
    if (!selected || selected.of === "finding") {
      body.replaceChildren(h("p", { className: "empty" }, "Select a bar of the timeline to see its details, or a range with Shift and the mouse."));
      return;
    }
    const d = describe(model, selected);
    body.replaceChildren(h("article", { className: "details" },
      h("h3", {}, h("span", { className: "key " + categoryKeys[d.key] }, selected.of === "call" && /^acl\w+$/.test(d.title) ? docs(`functions/${d.title}.html`, d.title) : d.title)),
      d.trouble ? h("p", { className: "trouble" }, d.trouble) : "",
      h("dl", {}, ...d.fields.flatMap(([k, v]) => [h("dt", {}, k), h("dd", {}, v)])),
      (selected.of === "task" && bars(model, selected.index)) || "",
      model.data.models[d.model] ? graph(model, d.model) : "",
      h("div", { className: "acts" },
        act("Zoom to it", () => this.state.frame(...this.state.span(selected))), act("Clear selection", () => this.state.select(null))),
      d.links.length > 0 ? h("ul", { className: "links" }, ...d.links.map((l) =>
        h("li", {}, h("button", { type: "button", className: "link", onclick: () => this.state.go(l.thing) }, l.label)))) : ""));
  }
}
