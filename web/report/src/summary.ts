// The top of the page: what ran, and the run in a few numbers.

import { h } from "./dom.ts";
import { Kind, NONE } from "./data.ts";
import { eachCopy } from "./inside.ts";
import * as format from "./format.ts";
import { Category, categoryKeys, shortNames, taskEnd, type Model } from "./model.ts";
import { union } from "./range.ts";

export function summary(m: Model): HTMLElement {
  const { tasks, calls, data } = m;
  const moved = new Float64Array(Category.Both + 1);
  let copies = 0;
  let failed = 0;
  let unfinished = 0;
  let kernels = 0;
  let running = 0;
  for (let i = 0; i < tasks.count; i++) {
    failed += tasks.failed[i];
    if (tasks.end[i] === NONE) unfinished++;
    if (tasks.category[i] === Category.Kernel) {
      kernels++;
      if (tasks.start[i] !== NONE) running += taskEnd(m, i) - tasks.start[i];
    }
    if (tasks.category[i] <= Category.Both && tasks.start[i] === NONE) copies++; // one that has not begun
  }
  let inModels = 0;
  const spans: [number, number][] = [];
  eachCopy(m, (c) => {
    copies += c.count;
    if (tasks.kind[c.task] === Kind.Model) inModels += c.count;
    spans.push([c.start, c.end]);
    if (tasks.end[c.task] !== NONE && !tasks.failed[c.task]) c.moved.forEach((b, k) => (moved[k] += b));
  });
  const waited = calls.blocked.reduce((sum, b) => sum + Math.max(0, b), 0);
  const total = moved.reduce((sum, b) => sum + b, 0);
  const busy = union(spans);
  const tile = (label: string, value: string, note: (Node | string)[] = [], bad = false) =>
    h("div", { className: "tile" + (bad ? " bad" : "") }, h("dt", {}, label), h("dd", {}, value), h("dd", { className: "quiet" }, ...note));
  const directions = [...moved].flatMap((b, c) =>
    b > 0 ? [h("span", { className: "item" }, h("i", { className: categoryKeys[c] }), `${shortNames[c]} ${format.bytes(b)}`)] : []);
  return h("dl", { className: "summary" },
    tile("Took", format.time(tasks.count + calls.count > 0 ? m.duration : data.duration), [`on ${data.driver || "an unknown driver"}, ` + format.plural(data.devices.length, "device")]),
    tile("Moved", format.bytes(total), directions),
    tile("Copies", format.count(copies), [`${inModels > 0 ? `${format.count(inModels)} in models; ` : "of "}${format.plural(tasks.count, "task")} in ${format.plural(new Set(tasks.stream.filter((s) => s !== NONE)).size, "stream")}`]),
    tile("Copying", percent(busy / m.duration), [busy > 0 ? `of the run; ${format.rate(total / busy)} while copying` : "of the run"]),
    kernels > 0 ? tile("Kernels", format.plural(kernels, "launch", "launches"), [`${format.time(running)} in all`]) : "",
    tile("Host waited", format.time(waited), [calls.count > 0 ? `in ${format.plural(calls.blocked.filter((b) => b > 0).length, "call")}` : ""]),
    data.checked || data.findings.length > 0
      ? tile("Findings", format.count(data.findings.length), [findings(m)], data.findings.length > 0) : "",
    failed + unfinished > 0
      ? tile("Errors", format.plural(failed, "task"), [unfinished > 0 ? `${format.count(unfinished)} not finished at the end` : "failed"], failed > 0)
      : tile("Errors", "none", ["all tasks completed"]));
}

function findings(m: Model): string {
  const { findings } = m.data;
  const errors = findings.filter((f) => f.severity === "error").length;
  if (findings.length === 0) return "the checker found nothing wrong";
  return [errors > 0 && format.plural(errors, "error"), findings.length > errors && format.plural(findings.length - errors, "warning")].filter(Boolean).join(", ");
}

function percent(share: number): string {
  return share > 0 && share < 0.01 ? "< 1%" : Math.round(100 * share) + "%";
}

export function command(words: string[]): string {
  return words.map((w) => (/^[\w@%+=:,./-]+$/.test(w) ? w : `'${w.replaceAll("'", `'\\''`)}'`)).join(" ");
}

/** notes is what is missing or cut, and what to know when reading times. */
export function notes(m: Model): HTMLElement | null {
  const list = [...m.data.notes];
  for (const p of m.data.processes) {
    if (!p.ended) list.push(`Process ${p.id} (${command(p.command ?? [])}) did not end by itself: what it did last may be missing.`);
  }
  if (list.length === 0) return null;
  return h("section", { className: "card", id: "notes" }, h("h2", {}, "Notes"), h("ul", {}, ...list.map((n) => h("li", {}, n))));
}
