// What goes on inside a run of a model. Tasks of a model have no times of their own: copies that run together are a
// piece, and what is known is when pieces ran. A run of which nothing else is known is one part with all of it.

import { Kind, NONE } from "./data.ts";
import { Category, categoryOf, taskEnd, type Model } from "./model.ts";

/** Part is tasks that share a time. */
export interface Part {
  model: number;
  first: number; // piece
  count: number; // of pieces
  start: number;
  end: number;
  nodes: number[]; // tasks of the model
}

/** Inside is the parts of a run; whole: no times inside were taken. */
export interface Inside {
  parts: Part[];
  whole: boolean;
}

/** partsOf is what is known of a task that executes a model. */
export function partsOf(m: Model, task: number): Inside {
  const { times, whole } = timesOf(m, task);
  const parts = times.map((t) => ({ ...t, nodes: nodesIn(m, t) })).filter((p) => p.nodes.length > 0);
  if (whole && parts.length > 0) parts[0].count = 1 + Math.max(0, m.data.models[parts[0].model].piece?.[parts[0].nodes.at(-1)!] ?? 0);
  return { parts, whole };
}

type Times = Omit<Part, "nodes">;

/** timesOf is the parts without their tasks, which take longer to find. */
function timesOf(m: Model, task: number): { times: Times[]; whole: boolean } {
  const model = m.data.tasks.model?.[task] ?? NONE;
  const times: Times[] = [];
  if (!m.data.models[model] || m.tasks.start[task] === NONE) return { times, whole: false };
  const p = m.data.parts;
  for (let i = p ? lower(p.task, task) : 0; p && i < p.task.length && p.task[i] === task; i++) {
    times.push({ model: p.model[i], first: p.first[i], count: p.count[i], start: p.start[i], end: p.end[i] });
  }
  if (times.length > 0) return { times, whole: false };
  return { times: [{ model, first: 0, count: Infinity, start: m.tasks.start[task], end: taskEnd(m, task) }], whole: true };
}

const orders = new WeakMap<object, number[]>();

/** byPiece is the tasks of a model that do something, in the order of their pieces. */
function byPiece(m: Model, model: number): number[] {
  const g = m.data.models[model];
  let list = orders.get(g);
  if (!list) {
    const piece = g.piece ?? g.kind.map(() => 0);
    list = g.kind.map((_, i) => i).filter((i) => piece[i] !== NONE).sort((a, b) => piece[a] - piece[b] || a - b);
    orders.set(g, list);
  }
  return list;
}

function nodesIn(m: Model, { model, first, count }: Times): number[] {
  const g = m.data.models[model];
  if (!g) return [];
  const list = byPiece(m, model);
  const pieces = { length: list.length, at: (i: number) => g.piece?.[list[i]] ?? 0 };
  return list.slice(search(pieces, first), search(pieces, first + count));
}

const lower = (sorted: number[], value: number) => search({ length: sorted.length, at: (i) => sorted[i] }, value);

/** search is the first place whose value is not below another. */
function search(of: { length: number; at: (i: number) => number }, value: number): number {
  let [low, high] = [0, of.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (of.at(middle) < value) low = middle + 1;
    else high = middle;
  }
  return low;
}

interface Copies {
  count: number;
  counts: Float64Array; // by category
  moved: Float64Array; // bytes by category
}

const sums = new WeakMap<object, Map<string, Copies>>(); // runs of a model are alike

/** copiesIn is the copies of a part. */
function copiesIn(m: Model, t: Times): Copies {
  const g = m.data.models[t.model];
  let of = sums.get(g);
  if (!of) sums.set(g, (of = new Map()));
  const key = `${t.first} ${t.count}`;
  let sum = of.get(key);
  if (sum) return sum;
  of.set(key, (sum = { count: 0, counts: new Float64Array(Category.Both + 1), moved: new Float64Array(Category.Both + 1) }));
  for (const i of nodesIn(m, t)) {
    if (g.kind[i] > Kind.Descriptor) continue;
    const category = categoryOf(g.kind[i], g.direction[i]);
    sum.count++;
    sum.counts[category]++;
    sum.moved[category] += g.bytes[i];
  }
  return sum;
}

/** Copying is something that copies: a task, or a part of one. */
export interface Copying extends Copies {
  task: number;
  start: number;
  end: number;
}

/** eachCopy calls f for all tasks that copy and have begun, and for the parts of models that do. What f is given is its own only while it runs. */
export function eachCopy(m: Model, f: (c: Copying) => void): void {
  const { tasks } = m;
  const one: Copying = { task: 0, start: 0, end: 0, count: 1, counts: new Float64Array(Category.Both + 1), moved: new Float64Array(Category.Both + 1) };
  for (let i = 0; i < tasks.count; i++) {
    if (tasks.start[i] === NONE || tasks.category[i] > Category.Both) continue;
    one.moved.fill(0);
    one.counts.fill(0);
    [one.moved[tasks.category[i]], one.counts[tasks.category[i]]] = [tasks.bytes[i], 1];
    [one.task, one.start, one.end] = [i, tasks.start[i], taskEnd(m, i)];
    f(one);
  }
  eachInModels(m, f);
}

/** eachInModels is eachCopy for the parts of models. */
export function eachInModels(m: Model, f: (c: Copying) => void): void {
  if (m.data.models.length === 0) return;
  for (let i = 0; i < m.tasks.count; i++) {
    if (m.tasks.kind[i] !== Kind.Model) continue;
    for (const t of timesOf(m, i).times) {
      const sum = m.data.models[t.model] ? copiesIn(m, t) : null;
      if (sum && sum.count > 0) f({ task: i, start: t.start, end: t.end, ...sum });
    }
  }
}

const copied = new WeakMap<Model, Category[]>();

/** copyCategories are the directions of copies, those in models too. */
export function copyCategories(m: Model): Category[] {
  let list = copied.get(m);
  if (!list) {
    const all = new Set(m.categories.filter((c) => c <= Category.Both));
    eachInModels(m, (c) => c.moved.forEach((bytes, k) => bytes > 0 && all.add(k as Category)));
    copied.set(m, (list = [...all].sort((a, b) => a - b)));
  }
  return list;
}

/** Line is tasks of a part that do the same, one after the other on a stream. */
export interface Line {
  part: Part;
  stream: number;
  kind: number;
  direction: number;
  kernel: string;
  first: number; // task of the model
  last: number;
  count: number;
  bytes: number;
}

/** lines joins the tasks of a part that do the same, so that thousands are a few. */
export function lines(m: Model, part: Part): Line[] {
  const g = m.data.models[part.model];
  const found = new Map<string, Line>();
  for (const i of part.nodes) {
    const key = `${g.stream[i]} ${g.kind[i]} ${g.direction[i]} ${g.kernel[i]}`;
    const old = found.get(key);
    if (old) {
      old.last = i;
      old.count++;
      old.bytes += g.bytes[i];
    } else {
      found.set(key, {
        part, stream: g.stream[i], kind: g.kind[i], direction: g.direction[i], kernel: g.kernel[i], first: i, last: i, count: 1, bytes: g.bytes[i],
      });
    }
  }
  return [...found.values()];
}
