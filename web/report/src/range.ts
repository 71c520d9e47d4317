// A range of time in numbers.

import * as format from "./format.ts";
import { callEnd, Category, failed, shortNames, taskEnd, taskStart, type Model } from "./model.ts";
import { NONE } from "./data.ts";
import type { Matches } from "./filter.ts";

/** measure is what happened in a range: of the tasks and calls that match, as far as they lie in it. */
export function measure(m: Model, matches: Matches, from: number, to: number): [string, string][] {
  const { tasks, calls } = m;
  const moved = new Float64Array(Category.Both + 1);
  const spans: [number, number][] = [];
  let inside = 0;
  let copies = 0;
  for (let i = 0; i < tasks.all; i++) {
    const [start, end] = [taskStart(m, i), taskEnd(m, i)];
    if (!matches.task[i] || end < from || start > to) continue;
    if (i < tasks.count) inside++;
    if (tasks.category[i] > Category.Both || tasks.start[i] === NONE) continue;
    copies += tasks.times[i];
    const [a, b] = [Math.max(start, from), Math.min(end, to)];
    spans.push([a, b]);
    if (!failed(m, i)) moved[tasks.category[i]] += tasks.bytes[i] * (end > start ? (b - a) / (end - start) : 1);
  }
  let waited = 0;
  let called = 0;
  for (let i = 0; i < calls.count; i++) {
    const end = callEnd(m, i);
    if (!matches.call[i] || end < from || calls.start[i] > to) continue;
    called++;
    if (calls.blocked[i] > 0) waited += Math.max(0, Math.min(end, to) - Math.max(end - calls.blocked[i], from));
  }
  const span = Math.max(to - from, 1);
  const busy = union(spans);
  const total = moved.reduce((sum, b) => sum + b, 0);
  const fields: [string, string][] = [
    ["from, to", `${format.moment(from, span / 1000)}, ${format.moment(to, span / 1000)}`],
    ["length", format.time(span)],
    ["tasks", `${format.count(inside)}, ${format.plural(copies, "copy", "copies")} among them`],
    ["moved", `${format.bytes(total)}, ${format.rate(total / span)}`],
  ];
  moved.forEach((b, c) => b > 0 && fields.push([shortNames[c], format.bytes(b)]));
  fields.push(
    ["copying", `${format.time(busy)} (${Math.round((100 * busy) / span)}%)`],
    ["calls", format.count(called)],
    ["host waited", format.time(waited)],
  );
  return fields;
}

/** union is how long at least one of the spans lasts. */
export function union(spans: [number, number][]): number {
  spans.sort((a, b) => a[0] - b[0]);
  let total = 0;
  let reach = -Infinity;
  for (const [a, b] of spans) {
    if (b > reach) total += b - Math.max(a, reach);
    reach = Math.max(reach, b);
  }
  return total;
}
