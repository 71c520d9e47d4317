// The table of calls: how often each function was called and how long it took.

import { h } from "./dom.ts";
import type { Stat } from "./data.ts";
import * as format from "./format.ts";
import type { State } from "./state.ts";

type Key = Exclude<keyof Stat, "function"> | "name";

const columns: { key: Key; label: string; write: (s: Stat) => string; title: string }[] = [
  { key: "count", label: "Calls", write: (s) => format.count(s.count), title: "how often it was called" },
  { key: "total", label: "Total", write: (s) => format.time(s.total), title: "time in all calls together" },
  { key: "mean", label: "Mean", write: (s) => format.time(s.mean), title: "mean time of a call" },
  { key: "p50", label: "p50", write: (s) => format.time(s.p50), title: "half of the calls took no longer" },
  { key: "p90", label: "p90", write: (s) => format.time(s.p90), title: "9 of 10 calls took no longer" },
  { key: "p99", label: "p99", write: (s) => format.time(s.p99), title: "99 of 100 calls took no longer" },
  { key: "max", label: "Longest", write: (s) => format.time(s.max), title: "the longest call" },
  { key: "errors", label: "Errors", write: (s) => (s.errors ? format.count(s.errors) : "–"), title: "calls that returned another code than 0" },
];

export function callTable(state: State): HTMLElement {
  const { data } = state.model;
  const name = (s: Stat) => data.functions[s.function] ?? "";
  let key: Key = "total";
  let down = true;
  const most = Math.max(1, ...data.stats.map((s) => s.total));
  const body = h("tbody");
  const heads = new Map<Key, HTMLTableCellElement>();

  const fill = () => {
    const sorted = [...data.stats].sort((a, b) => {
      const order = key === "name" ? name(a).localeCompare(name(b)) : a[key] - b[key];
      return down ? -order : order;
    });
    body.replaceChildren(...sorted.map((s) => h("tr", {},
      h("th", { scope: "row" },
        h("button", { type: "button", className: "link", title: "Show these calls on the timeline", onclick: () => state.refine({ function: s.function }) }, name(s)),
        s.total > most / 200 && h("span", { className: "share", style: `width:${(s.total / most) * 100}%` })),
      ...columns.map((c) => h("td", { className: c.key === "errors" && s.errors ? "bad" : "", "data-label": c.label }, c.write(s))))));
    for (const [k, th] of heads) {
      if (k === key) th.setAttribute("aria-sort", down ? "descending" : "ascending");
      else th.removeAttribute("aria-sort");
    }
  };
  const head = (k: Key, label: string, title: string) => {
    const th = h("th", { scope: "col" }, h("button", {
      type: "button", title: `${title}; sort by it`,
      onclick: () => {
        down = k === key ? !down : k !== "name";
        key = k;
        fill();
      },
    }, label));
    heads.set(k, th);
    return th;
  };
  const table = h("table", {},
    h("caption", { className: "unseen" }, "Calls of each function, with percentiles of their time"),
    h("thead", {}, h("tr", {}, head("name", "Function", "name of the function"), ...columns.map((c) => head(c.key, c.label, c.title)))),
    body);
  fill();
  return h("section", { className: "card", id: "calls" },
    h("h2", {}, "Calls"),
    data.stats.length > 0 ? h("div", { className: "wide", tabIndex: 0, role: "region", "aria-label": "Table of calls" }, table)
      : h("p", { className: "empty" }, "No call was recorded."));
}
