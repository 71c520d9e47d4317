// The table of kernels: how often each was launched and how long it ran, in models too.

import { h } from "./dom.ts";
import * as format from "./format.ts";
import { kernels } from "./series.ts";
import type { State } from "./state.ts";

const most = 200; // rows

/** kernelTable is null if the run has no kernels. */
export function kernelTable(state: State): HTMLElement | null {
  const list = kernels(state.model);
  if (list.length === 0) return null;
  const top = Math.max(1, ...list.map((k) => k.time));
  const heads = ["Kernel", "Launches", "Total", "Mean"];
  return h("section", { className: "card", id: "kernels" },
    h("h2", {}, "Kernels"),
    h("div", { className: "wide", tabIndex: 0, role: "region", "aria-label": "Kernels" }, h("table", {},
      h("caption", { className: "unseen" }, "Kernels by the time that they ran"),
      h("thead", {}, h("tr", {}, ...heads.map((text) => h("th", { scope: "col" }, text)))),
      h("tbody", {}, ...list.slice(0, most).map((k) => {
        const timed = k.launches - k.untimed;
        const cells = [
          format.count(k.launches), timed > 0 ? format.time(k.time) : "–", timed > 0 ? format.time(k.time / timed) : "–",
        ];
        return h("tr", {},
          h("th", { scope: "row" },
            h("button", { type: "button", className: "link", title: "Search for it", onclick: () => state.refine({ words: `"${k.name}"` }) }, k.name || "without a name"),
            h("span", { className: "share", style: `width:${(100 * k.time) / top}%` })),
          ...cells.map((text) => h("td", {}, text)));
      })))),
    list.length > most ? h("p", { className: "quiet" }, `and ${format.plural(list.length - most, "kernel")} more`) : "",
    list.some((k) => k.untimed > 0 && k.inModels > 0) ? h("p", { className: "quiet" }, "Where a model has one time for several tasks, a kernel in it has none of its own.") : "");
}
