// What the cores of devices did: a row for each core, with a bar for each kernel of which it ran blocks.

import { Kind } from "./data.ts";
import * as format from "./format.ts";
import type { Model } from "./model.ts";

/** Core is a core of a device, and which pieces of data.cores are its. */
export interface Core {
  number: number;
  pieces: number[];
}

/** coresOf are the cores of a device that did something, by number. */
export function coresOf(m: Model, device: number): Core[] {
  const cores = new Map<number, number[]>();
  const c = m.data.cores;
  for (let i = 0; i < (c?.task.length ?? 0); i++) {
    if (Math.max(0, m.tasks.device[c!.task[i]]) !== device) continue;
    const pieces = cores.get(c!.core[i]);
    if (pieces) pieces.push(i);
    else cores.set(c!.core[i], [i]);
  }
  return [...cores].sort((a, b) => a[0] - b[0]).map(([number, pieces]) => ({ number, pieces }));
}

/** itemsOfCores is the task of each piece: of a run of a model, the kernel inside it that ran then. */
export function itemsOfCores(m: Model): Int32Array {
  const { tasks, data: { cores } } = m;
  const items = Int32Array.from(cores?.task ?? []);
  const inside = new Map<string, number[]>(); // kernels, by run and name
  for (let i = tasks.count; i < tasks.all; i++) {
    if (tasks.kind[i] !== Kind.Kernel) continue;
    const key = tasks.run[i] + " " + tasks.kernels.get(i);
    inside.set(key, [...(inside.get(key) ?? []), i]);
  }
  return items.map((task, p) => {
    const found = inside.get(task + " " + cores!.kernel?.[p]) ?? [];
    return found.find((i) => tasks.start[i] <= cores!.start[p] && cores!.start[p] <= tasks.end[i]) ?? found[0] ?? task;
  });
}

const known = new WeakMap<Model, Map<number, number[]>>(); // pieces, by task

function piecesOf(m: Model): Map<number, number[]> {
  let of = known.get(m);
  if (of) return of;
  known.set(m, (of = new Map()));
  m.itemOfCore.forEach((t, i) => {
    const list = of.get(t);
    if (list) list.push(i);
    else of.set(t, [i]);
  });
  return of;
}

const mostFields = 32;

/** coreFields say which core did what of a task. */
export function coreFields(m: Model, task: number): [string, string][] {
  const c = m.data.cores;
  const pieces = [...(piecesOf(m).get(task) ?? [])].sort((a, b) => c!.core[a] - c!.core[b]);
  return pieces.slice(0, mostFields).map((i) => [
    `core ${c!.core[i]}`, `${format.plural(c!.blocks[i], "block")} from block ${format.count(c!.first[i])} on, ${format.time(c!.end[i] - c!.start[i])}`,
  ]);
}
