// A task, a call or a finding in words.

import { taskWords } from "./bars.ts";
import { coreFields } from "./cores.ts";
import { Kind, NONE, RangeKind, waits } from "./data.ts";
import * as format from "./format.ts";
import { Category, callEnd, categoryNames, rangeEnd, siteText, streamName, taskEnd, threadName, type Model } from "./model.ts";
import type { Thing } from "./state.ts";

export interface Description {
  title: string;
  key: number; // category, for its colour
  trouble: string; // what went wrong, or ""
  fields: [string, string][];
  short: number; // how many of the fields are enough beside the pointer
  links: { label: string; thing: Thing }[];
  model: number; // that it executes, or NONE
}

export function describe(m: Model, thing: Thing): Description {
  if (thing.of === "task") return task(m, thing.index);
  if (thing.of === "call") return call(m, thing.index);
  if (thing.of === "range") return range(m, thing.index);
  const f = m.data.findings[thing.index];
  return {
    title: f.rule, key: -1, trouble: f.text, short: 1, model: NONE,
    fields: [["at", at(f.time)], ...(f.thread === NONE ? [] : [["thread", threadName(m, f.thread)] as [string, string]])],
    links: f.tasks.map((t) => ({ label: name(m, t), thing: { of: "task", index: t } as Thing })),
  };
}

/** runName is "model" and the number of the one that a task executes. */
export function runName(m: Model, i: number): string {
  const model = m.data.models[m.data.tasks.model?.[i] ?? NONE];
  return "model" + (model ? ` ${model.id}` : "");
}

/** name says which task it is, the way the checker does. */
export function name(m: Model, i: number): string {
  const t = m.tasks;
  const text = m.textOfTask.get(i);
  if (t.run[i] !== NONE) {
    const what = taskWords(m, { kernel: text ?? "", kind: t.kind[i], direction: t.direction[i], count: t.times[i] });
    return `${what} in ${name(m, t.run[i])}`;
  }
  const kind = t.kind[i] === Kind.Model ? runName(m, i) : (m.data.strings.kinds[t.kind[i]] ?? "task") + (text === undefined ? "" : ` “${text}”`);
  const where = t.stream[i] === NONE ? "in the call" : `#${t.number[i]} on ${streamName(m, t.stream[i])}`;
  return `${kind} ${where}`;
}

function at(t: number): string {
  return format.moment(t, Math.max(1, 10 ** Math.floor(Math.log10(Math.max(t, 1)) - 5)));
}

const mostLinks = 20;

function task(m: Model, i: number): Description {
  const t = m.tasks;
  const ran = t.start[i] !== NONE;
  const over = ran && t.end[i] !== NONE;
  const took = taskEnd(m, i) - t.start[i];
  const fields: [string, string][] = [];
  const copy = t.category[i] <= Category.Both;
  if (copy) fields.push(["direction", categoryNames[t.category[i]]]);
  if (copy || t.kind[i] === Kind.Fill) {
    fields.push(["size", format.bytes(t.bytes[i]) + (t.bytes[i] >= 1024 ? ` (${format.count(t.bytes[i])} B)` : "")]);
    if (t.times[i] > 1) fields.push(["copies", `${format.count(t.times[i])}, ${format.bytes(t.bytes[i] / t.times[i])} each on average`]);
    else if (t.segments[i] > 1) {
      fields.push(["segments", `${format.count(t.segments[i])}, ${format.bytes(t.bytes[i] / t.segments[i])} each on average`]);
    }
  }
  if (t.kind[i] === Kind.Kernel) fields.push(["blocks", format.count(t.segments[i])]);
  if (t.kind[i] === Kind.Model) fields.push(["tasks", format.count(t.segments[i])], ["size", format.bytes(t.bytes[i])]);
  const inside = t.run[i] !== NONE;
  const shared = t.shared[i] ? ", which it shares with other tasks of the model" : "";
  fields.push([waits(t.kind[i]) ? "waited" : "ran", !ran ? "never" : format.time(took) + (over ? shared : ", not over when the run ended")]);
  if (over && t.bytes[i] > 0 && took > 0 && !shared) fields.push(["speed", format.rate(t.bytes[i] / took)]);
  if (copy && t.memory[i] > 0) fields.push(["host memory", m.data.strings.memories[t.memory[i]] ?? ""]);
  if (ran && !inside) fields.push(["in the queue", format.time(Math.max(0, t.start[i] - t.submit[i]))]);
  const source = siteText(m, t.call[i]);
  if (source) fields.push(["source", source]);
  const short = fields.length;
  if (!inside) fields.push(["submitted", at(t.submit[i])]);
  if (ran) fields.push(["started", at(t.start[i])]);
  if (over) fields.push(["ended", at(t.end[i])]);
  fields.push(["stream", streamName(m, t.stream[i])]);
  if (inside) fields.push(["captured from", streamName(m, t.home[i])]);
  const device = m.data.devices[t.device[i]];
  if (device) fields.push(["device", `${device.id} ${device.name}`.trim()]);
  if (t.thread[i] !== NONE) fields.push(["thread", threadName(m, t.thread[i])]);

  fields.push(...coreFields(m, i));

  const links: Description["links"] = [];
  if (inside) links.push({ label: `part of ${name(m, t.run[i])}`, thing: { of: "task", index: t.run[i] } });
  if (t.call[i] !== NONE) {
    links.push({ label: `submitted by ${m.data.functions[m.calls.function[t.call[i]]]}`, thing: { of: "call", index: t.call[i] } });
  }
  for (const b of m.before.get(i) ?? []) links.push({ label: `waited for ${name(m, b)}`, thing: { of: "task", index: b } });
  for (const a of m.after.get(i) ?? []) links.push({ label: `released ${name(m, a)}`, thing: { of: "task", index: a } });
  for (const c of (m.awaitedBy.get(i) ?? []).slice(0, mostLinks)) {
    links.push({ label: `awaited by ${m.data.functions[m.calls.function[c]]}`, thing: { of: "call", index: c } });
  }
  m.data.findings.forEach((f, n) => {
    if (f.tasks.includes(i)) links.push({ label: `finding: ${f.rule}`, thing: { of: "finding", index: n } });
  });
  return { title: name(m, i), key: t.category[i], trouble: t.failed[i] ? `failed with code ${t.code[i]}` : "", fields, short, links, model: m.data.tasks.model?.[i] ?? NONE };
}

function call(m: Model, i: number): Description {
  const c = m.calls;
  const took = callEnd(m, i) - c.start[i];
  const fields: [string, string][] = [["took", format.time(took) + (c.end[i] === NONE ? ", had not returned when the run ended" : "")]];
  if (c.blocked[i] > 0) {
    fields.push(["waited for work", `${format.time(c.blocked[i])} (${Math.round((100 * c.blocked[i]) / Math.max(took, 1))}%)`]);
  }
  if (c.awaited[i] !== NONE) fields.push(["waited for", name(m, c.awaited[i])]);
  if (c.stream[i] !== NONE) fields.push(["stream", streamName(m, c.stream[i])]);
  const tasks = m.tasksOfCall.get(i) ?? [];
  if (tasks.length > 0) fields.push(["submitted", format.plural(tasks.length, "task")]);
  const source = siteText(m, i);
  if (source) fields.push(["source", source]);
  const short = fields.length;
  fields.push(["began", at(c.start[i])], ["thread", threadName(m, c.thread[i])]);
  const links: Description["links"] = tasks.slice(0, mostLinks).map((t) => ({ label: `submitted ${name(m, t)}`, thing: { of: "task", index: t } }));
  if (c.awaited[i] !== NONE) links.unshift({ label: `waited for ${name(m, c.awaited[i])}`, thing: { of: "task", index: c.awaited[i] } });
  return {
    title: m.data.functions[c.function[i]] ?? "call", key: Category.Call,
    trouble: c.code[i] !== 0 ? `returned ${c.code[i]}` : "", fields, short, links, model: NONE,
  };
}

function range(m: Model, i: number): Description {
  const r = m.ranges;
  const moment = r.kind[i] === RangeKind.Moment;
  const fields: [string, string][] = moment ? [["at", at(r.start[i])]]
    : [["took", format.time(rangeEnd(m, i) - r.start[i]) + (r.end[i] === NONE ? ", had not ended when the run ended" : "")]];
  const short = fields.length;
  if (!moment) fields.push(["began", at(r.start[i])]);
  if (r.end[i] !== NONE && !moment) fields.push(["ended", at(r.end[i])]);
  fields.push(["thread", threadName(m, r.thread[i])]);
  fields.push(["kind", ["a moment", "a range inside others of its thread", "a range that may end in another thread"][r.kind[i]] ?? "a range"]);
  return {
    title: r.text[i] || (moment ? "mark" : "range"), key: Category.Range, trouble: "", fields, short, model: NONE,
    links: r.task[i] === NONE ? [] : [{ label: `marked by ${name(m, r.task[i])}`, thing: { of: "task", index: r.task[i] } }],
  };
}
