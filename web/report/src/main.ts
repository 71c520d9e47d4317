import "./style.css";
import { keep, restore } from "./address.ts";
import { expose } from "./api.ts";
import { callTable } from "./calls.ts";
import { Ahead, Bandwidth, histogram } from "./charts.ts";
import { read } from "./data.ts";
import { h, icon } from "./dom.ts";
import { view } from "./given.ts";
import { help } from "./help.ts";
import { kernelTable } from "./kernels.ts";
import { build } from "./model.ts";
import { Panel } from "./panel.ts";
import { State } from "./state.ts";
import { command, notes, summary } from "./summary.ts";
import * as theme from "./theme.ts";
import { Overview } from "./timeline/overview.ts";
import { Timeline } from "./timeline/timeline.ts";
import { Toolbar } from "./toolbar.ts";

const page = document.getElementById("page")!;

async function main(): Promise<void> {
  const data = await read();
  if (!data) {
    page.replaceChildren(h("p", { className: "empty" }, "There is no run in this page. ropeway trace -- PROGRAM writes one that has."));
    return;
  }
  const model = build(data);
  const state = new State(model);
  const title = command(data.program) || "a run";
  document.title = `${title} · ropeway`;

  const timeline = new Timeline(state);
  const overview = new Overview(state);
  const toolbar = new Toolbar(state, timeline.hint);
  const panel = new Panel(state);
  const dialog = help();
  const recolour = () => state.notify("theme");
  const flip = () => {
    theme.choose(theme.dark() ? "light" : "dark");
    recolour();
  };
  theme.onChange(recolour);
  const about = notes(model);
  const launched = kernelTable(state);

  const begun = new Date(data.started);
  page.replaceChildren(
    h("a", { className: "skip", href: "#timeline" }, "Go to the timeline"),
    h("header", { className: "top" },
      h("div", { className: "mark" }, icon("M1 3.2 15 1v1.4l-4.2.7v3.2H12a1.5 1.5 0 0 1 1.500 1.500v4.400A1.500 1.500 0 0 1 12 13.800H6A1.500 1.500 0 0 1 4.500 12.300V7.900A1.500 1.500 0 0 1 6 6.400h3.400V3.300L1 4.600zM6 7.800v2.600h2.300V7.800zm3.700 0v2.600H12V7.800z"), "ropeway"),
      h("div", { className: "what" }, h("h1", { title }, title),
        isNaN(begun.getTime()) ? null : h("time", { dateTime: data.started }, begun.toISOString().replace("T", " ").replace(/\.\d+Z/, " UTC"))),
      h("nav", { "aria-label": "Parts of the page" },
        h("a", { href: "#timeline" }, "Timeline"), h("a", { href: "#sizes" }, "Sizes"), launched ? h("a", { href: "#kernels" }, "Kernels") : null, h("a", { href: "#calls" }, "Calls"),
        about ? h("a", { href: "#notes" }, "Notes") : null),
      h("div", { className: "tools" },
        h("button", { type: "button", className: "square", title: "Light or dark (T)", "aria-label": "Light or dark", id: "theme", onclick: flip },
          icon("M8 1.500a6.500 6.500 0 1 0 0 13 6.500 6.500 0 0 0 0-13zm0 1.400v10.200A5.100 5.100 0 0 1 8 2.900z")),
        h("button", { type: "button", className: "square", title: "Shortcuts and legend (?)", "aria-label": "Shortcuts and legend", id: "help", onclick: () => dialog.showModal() }, "?"))),
    data.checked ? h("p", { className: "banner" }, "The checker delayed work in this run: times show the order of events, not how long they take.") : "",
    summary(model),
    h("main", {},
      h("div", { className: "split" },
        h("section", { className: "card time", id: "timeline", "aria-label": "Timeline" },
          toolbar.element, overview.element, timeline.element, new Bandwidth(state, timeline.layout).element, new Ahead(state, timeline.layout).element),
        h("div", { className: "side" }, panel.element, histogram(state), launched),
        callTable(state)),
      about ?? ""),
    dialog);
  page.removeAttribute("aria-busy");

  addEventListener("keydown", (e) => {
    const at = e.target as HTMLElement;
    if (e.defaultPrevented || e.ctrlKey || e.metaKey || e.altKey || dialog.open || at.matches("input:not([type=checkbox]), select, textarea")) return;
    const keys: Record<string, () => void> = {
      "/": () => toolbar.search.focus(),
      "?": () => dialog.showModal(),
      t: flip,
      n: () => state.next(1),
      p: () => state.next(-1),
    };
    const act = keys[e.key];
    if (!act) return timeline.key(e, false);
    e.preventDefault();
    act();
  });

  restore(state, view());
  keep(state);
  requestAnimationFrame(() => requestAnimationFrame(() => expose(state, timeline, performance.now())));
}

main().catch((error: unknown) => {
  page.replaceChildren(h("p", { className: "empty trouble" }, `This report cannot be read: ${error instanceof Error ? error.message : String(error)}`));
});
