// The top of the page: what ran, and the run in a few numbers.

import { h } from "./dom.ts";
import { NONE } from "./data.ts";
import * as format from "./format.ts";
import { Category, categoryKeys, moved, shortNames, taskEnd, type Model } from "./model.ts";
import { union } from "./range.ts";
import { kernels } from "./series.ts";

export function summary(m: Model): HTMLElement {
  const { tasks, calls, data } = m;
  const bytes = new Float64Array(Category.Both + 1);
  let copies = 0;
  let inModels = 0;
  let failed = 0;
  let unfinished = 0;
  const spans: [number, number][] = [];
  for (let i = 0; i < tasks.all; i++) {
    if (i < tasks.count) {
      failed += tasks.failed[i];
      if (tasks.end[i] === NONE) unfinished++;
    }
    if (tasks.category[i] > Category.Both) continue;
    copies += tasks.times[i];
    if (i >= tasks.count) inModels += tasks.times[i];
    if (tasks.start[i] !== NONE) spans.push([tasks.start[i], taskEnd(m, i)]);
    if (moved(m, i)) bytes[tasks.category[i]] += tasks.bytes[i];
  }
  const launched = kernels(m);
  const launches = launched.reduce((sum, k) => sum + k.launches, 0);
  const waited = calls.blocked.reduce((sum, b) => sum + Math.max(0, b), 0);
  const total = bytes.reduce((sum, b) => sum + b, 0);
  const busy = union(spans);
  const work = m.work[1] - m.work[0];
  const tile = (label: string, value: string, note: (Node | string)[] = [], bad = false) =>
    h("div", { className: "tile" + (bad ? " bad" : "") }, h("dt", {}, label), h("dd", {}, value), h("dd", { className: "quiet" }, ...note));
  const directions = [...bytes].flatMap((b, c) =>
    b > 0 ? [h("span", { className: "item" }, h("i", { className: categoryKeys[c] }), `${shortNames[c]} ${format.bytes(b)}`)] : []);
  return h("dl", { className: "summary" },
    tile("Took", format.time(tasks.count + calls.count > 0 ? m.duration : data.duration), [`on ${data.driver || "an unknown driver"}, ` + format.plural(data.devices.length, "device")]),
    tile("Moved", format.bytes(total), directions),
    tile("Copies", format.count(copies), [`${inModels > 0 ? `${format.count(inModels)} in models; ` : "of "}${format.plural(tasks.count, "task")} in ${format.plural(new Set(tasks.stream.filter((s) => s !== NONE)).size, "stream")}`]),
    tile("Copying", percent(busy / Math.max(work, 1)), [`of the ${format.time(work)} from first to last task`, busy > 0 ? h("span", {}, `${format.rate(total / busy)} while copying`) : ""]),
    launches > 0 ? tile("Kernels", format.plural(launches, "launch", "launches"), [ranFor(launched)]) : "",
    tile("Host waited", format.time(waited), [calls.count > 0 ? `in ${format.plural(calls.blocked.filter((b) => b > 0).length, "call")}` : ""]),
    data.checked || data.findings.length > 0
      ? tile("Findings", format.count(data.findings.length), [findings(m)], data.findings.length > 0) : "",
    failed + unfinished > 0
      ? tile("Errors", format.plural(failed, "task"), [unfinished > 0 ? `${format.count(unfinished)} not finished at the end` : "failed"], failed > 0)
      : tile("Errors", "none", ["all tasks completed"]));
}

/** ranFor is how long kernels ran, as far as that is known. */
function ranFor(list: ReturnType<typeof kernels>): string {
  const untimed = list.reduce((sum, k) => sum + k.untimed, 0);
  const launches = list.reduce((sum, k) => sum + k.launches, 0);
  if (untimed === launches) return "in models, without times of their own";
  return format.time(list.reduce((sum, k) => sum + k.time, 0)) + " in all" + (untimed > 0 ? `; ${format.count(untimed)} without times of their own` : "");
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
