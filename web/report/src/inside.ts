// What goes on inside a run of a model. Tasks of a model have no times of their own: copies that run together are a
// piece, and what is known is when pieces ran. A run of which nothing else is known is one part with all of it.

import { NONE, type Data } from "./data.ts";
import { categoryOf, type Model, type Tasks } from "./model.ts";

/** Part is tasks that share a time. */
export interface Part {
  model: number;
  first: number; // piece
  count: number; // of pieces
  start: number;
  end: number;
  lines: Line[];
}

/** Line is tasks of a part that do the same, one after the other on a stream. */
export interface Line {
  stream: number;
  kind: number;
  direction: number;
  kernel: string;
  first: number; // task of the model
  last: number;
  count: number;
  bytes: number;
  segments: number; // of a kernel its blocks
}

/** Inside is the parts of a run; whole: no times inside were taken. */
export interface Inside {
  parts: Part[];
  whole: boolean;
}

/** partsOf is what is known of a task that executes a model. */
export function partsOf(m: Model, task: number): Inside {
  return inside(m.data, m.tasks, task, m.duration);
}

function inside(data: Data, tasks: Tasks, task: number, duration: number): Inside {
  const model = data.tasks.model?.[task] ?? NONE;
  const parts: Part[] = [];
  if (!data.models[model] || tasks.start[task] === NONE) return { parts, whole: false };
  const p = data.parts;
  for (let i = p ? lower(p.task, task) : 0; p && i < p.task.length && p.task[i] === task; i++) {
    const lines = linesIn(data, p.model[i], p.first[i], p.count[i]);
    if (lines.length > 0) parts.push({ model: p.model[i], first: p.first[i], count: p.count[i], start: p.start[i], end: p.end[i], lines });
  }
  if (parts.length > 0) return { parts, whole: false };
  const lines = linesIn(data, model, 0, Infinity);
  const end = tasks.end[task] === NONE ? duration : tasks.end[task];
  const pieces = 1 + (data.models[model].piece?.reduce((most, n) => Math.max(most, n), 0) ?? 0);
  if (lines.length > 0) parts.push({ model, first: 0, count: pieces, start: tasks.start[task], end, lines });
  return { parts, whole: true };
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

const known = new WeakMap<object, { byPiece: number[]; lines: Map<string, Line[]> }>(); // of models: their runs are alike

/** linesIn joins the tasks in pieces of a model that do the same, so that thousands are a few. */
function linesIn(data: Data, model: number, first: number, count: number): Line[] {
  const g = data.models[model];
  if (!g) return [];
  const piece = (i: number) => g.piece?.[i] ?? 0;
  let of = known.get(g);
  if (!of) {
    const byPiece = g.kind.map((_, i) => i).filter((i) => piece(i) !== NONE).sort((a, b) => piece(a) - piece(b) || a - b);
    known.set(g, (of = { byPiece, lines: new Map() }));
  }
  const { byPiece, lines } = of;
  const key = `${first} ${count}`;
  let list = lines.get(key);
  if (list) return list;
  const pieces = { length: byPiece.length, at: (i: number) => piece(byPiece[i]) };
  const found = new Map<string, Line>();
  for (const i of byPiece.slice(search(pieces, first), search(pieces, first + count))) {
    const key = `${g.stream[i]} ${g.kind[i]} ${g.direction[i]} ${g.kernel[i]}`;
    const old = found.get(key);
    if (old) {
      old.last = i;
      old.count++;
      old.bytes += g.bytes[i];
      old.segments += g.segments[i];
    } else {
      found.set(key, {
        stream: g.stream[i], kind: g.kind[i], direction: g.direction[i], kernel: g.kernel[i], first: i, last: i, count: 1, bytes: g.bytes[i],
        segments: g.segments[i],
      });
    }
  }
  lines.set(key, (list = [...found.values()]));
  return list;
}

/** expand is the tasks, and after them what ran inside those that execute models: a task for each line of each part. */
export function expand(data: Data, tasks: Tasks, duration: number): Tasks {
  if (data.models.length === 0) return tasks;
  const found: { run: number; part: Part; line: Line }[] = [];
  for (let run = 0; run < tasks.count; run++) {
    for (const part of inside(data, tasks, run, duration).parts) for (const line of part.lines) found.push({ run, part, line });
  }
  const all = tasks.count + found.length;
  const wider = { ...tasks, all } as Tasks;
  for (const [key, column] of Object.entries(tasks)) {
    if (!ArrayBuffer.isView(column)) continue;
    const wide = new (column.constructor as Float64ArrayConstructor)(all);
    wide.set(column as Float64Array);
    (wider as unknown as Record<string, Float64Array>)[key] = wide;
  }
  found.forEach(({ run, part, line }, n) => {
    const i = tasks.count + n;
    const set = (key: Exclude<keyof Tasks, "count" | "all" | "kernels">, value: number) => (wider[key][i] = value);
    for (const key of ["stream", "device", "number", "thread", "call"] as const) set(key, tasks[key][run]);
    set("run", run);
    set("kind", line.kind);
    set("direction", line.direction);
    set("category", categoryOf(line.kind, line.direction));
    set("home", line.stream);
    set("times", line.count);
    set("segments", line.segments);
    set("bytes", line.bytes);
    set("shared", part.lines.length > 1 ? 1 : 0);
    set("submit", part.start);
    set("start", part.start);
    set("end", tasks.end[run] === NONE ? NONE : part.end);
    if (line.kernel) wider.kernels.set(i, line.kernel);
  });
  return wider;
}
