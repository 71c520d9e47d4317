// The numbers behind the plots.

import { Kind, NONE } from "./data.ts";
import { Category, categoryOf, moved, taskEnd, type Model } from "./model.ts";

/** bandwidth is how fast each direction moved bytes, in bytes a nanosecond, for equal parts of [from, to]: the mean of each. */
export function bandwidth(m: Model, from: number, to: number, parts: number): { times: number[]; rates: Map<number, number[]> } {
  const { tasks } = m;
  const per = (to - from) / parts;
  const sums = new Map<number, Float64Array>();
  for (const c of m.categories) if (c <= Category.Both) sums.set(c, new Float64Array(parts));
  for (let i = 0; i < tasks.all; i++) {
    const [start, end] = [tasks.start[i], tasks.end[i]];
    if (!moved(m, i) || end < from || start > to) continue;
    const sum = sums.get(tasks.category[i])!;
    const first = Math.max(0, Math.floor((start - from) / per));
    const last = Math.min(parts - 1, Math.floor((end - from) / per));
    const took = end - start;
    if (took <= 0 || first === last) {
      // All of it, or what of it is inside: spread evenly over its time.
      const inside = took <= 0 ? 1 : (Math.min(end, to) - Math.max(start, from)) / took;
      if (first < parts) sum[first] += tasks.bytes[i] * inside;
      continue;
    }
    const speed = tasks.bytes[i] / took;
    for (let k = first; k <= last; k++) {
      sum[k] += speed * (Math.min(end, from + (k + 1) * per) - Math.max(start, from + k * per));
    }
  }
  const times = Array.from({ length: parts }, (_, k) => from + (k + 0.5) * per);
  return { times, rates: new Map([...sums].map(([c, sum]) => [c, Array.from(sum, (b) => b / per)])) };
}

/** speeds is how fast each direction moved bytes at each moment, in bytes a nanosecond: its copies together. */
export function speeds(m: Model): Map<number, Steps> {
  const { tasks } = m;
  const copies = new Map<number, number[]>();
  for (let i = 0; i < tasks.all; i++) {
    if (!moved(m, i) || tasks.end[i] <= tasks.start[i]) continue;
    const list = copies.get(tasks.category[i]);
    if (list) list.push(i);
    else copies.set(tasks.category[i], [i]);
  }
  return new Map([...copies].map(([c, list]): [number, Steps] => {
    const begun = Int32Array.from(list).sort((a, b) => tasks.start[a] - tasks.start[b]);
    const ended = Int32Array.from(list).sort((a, b) => tasks.end[a] - tasks.end[b]);
    const speed = (i: number) => tasks.bytes[i] / (tasks.end[i] - tasks.start[i]);
    const steps: Steps = { times: new Float64Array(2 * list.length), levels: new Float64Array(2 * list.length) };
    for (let n = 0, b = 0, e = 0, level = 0; n < steps.times.length; n++) {
      const ends = b >= begun.length || tasks.end[ended[e]] <= tasks.start[begun[b]]; // what ends makes room for what begins then
      steps.times[n] = ends ? tasks.end[ended[e]] : tasks.start[begun[b]];
      level = b === e ? 0 : level; // what rounding has left
      steps.levels[n] = level = Math.max(0, ends ? level - speed(ended[e++]) : level + speed(begun[b++]));
    }
    return [c, steps];
  }));
}

/** Steps is a number that changes at moments: after times[i] it is levels[i]. */
export interface Steps {
  times: Float64Array;
  levels: Float64Array;
}

/** ahead is how many tasks were submitted and not over. One that never ended counts to the end. */
export function ahead(m: Model): Steps {
  const { count, submit, end } = m.tasks;
  const ended = end.slice(0, count).filter((t) => t !== NONE).sort();
  const submitted = submit.slice(0, count).sort();
  const steps: Steps = { times: new Float64Array(submitted.length + ended.length), levels: new Float64Array(submitted.length + ended.length) };
  for (let n = 0, s = 0, e = 0; n < steps.times.length; n++) {
    const begins = e >= ended.length || (s < submitted.length && submitted[s] <= ended[e]);
    steps.times[n] = begins ? submitted[s++] : ended[e++];
    steps.levels[n] = s - e;
  }
  return steps;
}

/** highest takes, for equal parts of [from, to], the highest level in each. */
export function highest(steps: Steps, from: number, to: number, parts: number): { times: number[]; levels: number[] } {
  const per = (to - from) / parts;
  const times: number[] = [];
  const levels: number[] = [];
  let low = 0;
  let high = steps.times.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (steps.times[middle] < from) low = middle + 1;
    else high = middle;
  }
  let level = low > 0 ? steps.levels[low - 1] : 0;
  for (let k = 0; k < parts; k++) {
    let top = level;
    for (; low < steps.times.length && steps.times[low] < from + (k + 1) * per; low++) {
      level = steps.levels[low];
      top = Math.max(top, level);
    }
    times.push(from + (k + 0.5) * per);
    levels.push(top);
  }
  return { times, levels };
}

/** sizes counts copies by size: bin b is for sizes from 2^b to below 2^(b+1). A batch counts once, with all its bytes; a copy of a model in each run. */
export function sizes(m: Model): { first: number; counts: Map<number, number[]>; bytes: number[] } {
  const { tasks } = m;
  let first = Infinity;
  let last = -Infinity;
  const bin = (bytes: number) => Math.floor(Math.log2(Math.max(1, bytes)));
  const each = (f: (category: number, bytes: number, count: number) => void) => {
    for (let i = 0; i < tasks.count; i++) if (tasks.category[i] <= Category.Both) f(tasks.category[i], tasks.bytes[i], 1);
    const runs = new Map<number, number>();
    for (const k of m.data.tasks.model ?? []) if (m.data.models[k]) runs.set(k, (runs.get(k) ?? 0) + 1);
    for (const [k, count] of runs) {
      const g = m.data.models[k];
      for (let i = 0; i < g.kind.length; i++) if (g.kind[i] <= Kind.Descriptor) f(categoryOf(g.kind[i], g.direction[i]), g.bytes[i], count);
    }
  };
  each((_, bytes) => {
    first = Math.min(first, bin(bytes));
    last = Math.max(last, bin(bytes));
  });
  if (first > last) return { first: 0, counts: new Map(), bytes: [] };
  const n = last - first + 1;
  const counts = new Map<number, number[]>();
  const bytes = new Array<number>(n).fill(0);
  each((category, size, count) => {
    if (!counts.has(category)) counts.set(category, new Array<number>(n).fill(0));
    counts.get(category)![bin(size) - first] += count;
    bytes[bin(size) - first] += size * count;
  });
  return { first, counts, bytes };
}

export const inModels = 255; // in place of a kind of host memory: copies of models

/** groups adds up copies that are over by direction and host memory. */
export function groups(m: Model): { category: number; memory: number; count: number; bytes: number; time: number }[] {
  const { tasks } = m;
  const found = new Map<number, ReturnType<typeof groups>[number]>();
  for (let i = 0; i < tasks.all; i++) {
    if (!moved(m, i)) continue;
    const [category, memory] = [tasks.category[i], tasks.run[i] === NONE ? tasks.memory[i] : inModels];
    let group = found.get(category * 256 + memory);
    if (!group) found.set(category * 256 + memory, (group = { category, memory, count: 0, bytes: 0, time: 0 }));
    group.count += tasks.times[i];
    group.bytes += tasks.bytes[i];
    group.time += Math.max(0, tasks.end[i] - tasks.start[i]);
    if (tasks.shared[i]) group.time = NaN; // of several, and nobody knows how much of it is theirs
  }
  return [...found.values()].sort((a, b) => a.category - b.category || a.memory - b.memory);
}

/** Launched is the launches of one kernel, in models too. */
export interface Launched {
  name: string;
  launches: number;
  inModels: number; // of the launches
  untimed: number; // launches that share their times with other tasks of a model, or have not run
  time: number; // of those that have their own
}

/** kernels adds up launches by kernel, the one that took longest first. */
export function kernels(m: Model): Launched[] {
  const { tasks } = m;
  const found = new Map<string, Launched>();
  for (let i = 0; i < tasks.all; i++) {
    if (tasks.kind[i] !== Kind.Kernel) continue;
    const name = tasks.kernels.get(i) ?? "";
    let of = found.get(name);
    if (!of) found.set(name, (of = { name, launches: 0, inModels: 0, untimed: 0, time: 0 }));
    of.launches += tasks.times[i];
    if (tasks.run[i] !== NONE) of.inModels += tasks.times[i];
    if (tasks.shared[i] || tasks.start[i] === NONE) of.untimed += tasks.times[i];
    else of.time += taskEnd(m, i) - tasks.start[i];
  }
  return [...found.values()].sort((a, b) => b.time - a.time || b.launches - a.launches);
}
