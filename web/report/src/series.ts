// The numbers behind the plots.

import { Kind, NONE } from "./data.ts";
import { copyCategories, eachInModels } from "./inside.ts";
import { Category, categoryOf, type Model } from "./model.ts";

/** bandwidth is how fast each direction moved bytes, in bytes a nanosecond, for equal parts of [from, to]. */
export function bandwidth(m: Model, from: number, to: number, parts: number): { times: number[]; rates: Map<number, number[]> } {
  const { tasks } = m;
  const per = (to - from) / parts;
  const sums = new Map<number, Float64Array>();
  for (const c of copyCategories(m)) sums.set(c, new Float64Array(parts));
  const add = (sum: Float64Array, start: number, end: number, bytes: number) => {
    const first = Math.max(0, Math.floor((start - from) / per));
    const last = Math.min(parts - 1, Math.floor((end - from) / per));
    const took = end - start;
    if (took <= 0 || first === last) {
      // All of it, or what of it is inside: spread evenly over its time.
      const inside = took <= 0 ? 1 : (Math.min(end, to) - Math.max(start, from)) / took;
      if (first < parts) sum[first] += bytes * inside;
      return;
    }
    const speed = bytes / took;
    for (let k = first; k <= last; k++) {
      sum[k] += speed * (Math.min(end, from + (k + 1) * per) - Math.max(start, from + k * per));
    }
  };
  for (let i = 0; i < tasks.count; i++) {
    const sum = sums.get(tasks.category[i]);
    const [start, end] = [tasks.start[i], tasks.end[i]];
    if (!sum || start === NONE || end === NONE || end < from || start > to || tasks.failed[i]) continue;
    add(sum, start, end, tasks.bytes[i]);
  }
  eachInModels(m, ({ task, start, end, moved }) => {
    if (end < from || start > to || tasks.end[task] === NONE || tasks.failed[task]) return;
    moved.forEach((bytes, k) => bytes > 0 && add(sums.get(k)!, start, end, bytes));
  });
  const times = Array.from({ length: parts }, (_, k) => from + (k + 0.5) * per);
  return { times, rates: new Map([...sums].map(([c, sum]) => [c, Array.from(sum, (b) => b / per)])) };
}

/** Steps is a number that changes at moments: after times[i] it is levels[i]. */
export interface Steps {
  times: Float64Array;
  levels: Float64Array;
  peak: number;
}

/** ahead is how many tasks were submitted and not over. One that never ended counts to the end. */
export function ahead(m: Model): Steps {
  const { tasks } = m;
  const ended = Float64Array.from(tasks.end.filter((t) => t !== NONE)).sort();
  const submitted = Float64Array.from(tasks.submit).sort();
  const steps: Steps = {
    times: new Float64Array(submitted.length + ended.length), levels: new Float64Array(submitted.length + ended.length), peak: 0,
  };
  let level = 0;
  for (let s = 0, e = 0, n = 0; n < steps.times.length; n++) {
    if (e >= ended.length || (s < submitted.length && submitted[s] <= ended[e])) {
      steps.times[n] = submitted[s++];
      level++;
    } else {
      steps.times[n] = ended[e++];
      level--;
    }
    steps.levels[n] = level;
    steps.peak = Math.max(steps.peak, level);
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
  for (const c of m.categories) if (c <= Category.Both) counts.set(c, new Array<number>(n).fill(0));
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
  for (let i = 0; i < tasks.count; i++) {
    if (tasks.category[i] > Category.Both || tasks.end[i] === NONE || tasks.failed[i]) continue;
    const key = tasks.category[i] * 16 + tasks.memory[i];
    let group = found.get(key);
    if (!group) found.set(key, (group = { category: tasks.category[i], memory: tasks.memory[i], count: 0, bytes: 0, time: 0 }));
    group.count++;
    group.bytes += tasks.bytes[i];
    group.time += Math.max(0, tasks.end[i] - tasks.start[i]);
  }
  // Copies of models share their times, so there is no speed of each kind.
  eachInModels(m, ({ task, counts, moved }) => {
    if (tasks.end[task] === NONE || tasks.failed[task]) return;
    counts.forEach((count, category) => {
      if (count === 0) return;
      const key = category * 16 - 1;
      let group = found.get(key);
      if (!group) found.set(key, (group = { category, memory: inModels, count: 0, bytes: 0, time: 0 }));
      group.count += count;
      group.bytes += moved[category];
    });
  });
  return [...found.values()].sort((a, b) => a.category - b.category || a.memory - b.memory);
}
