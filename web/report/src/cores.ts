// What the cores of devices did: a row for each core, with a bar for each kernel of which it ran blocks.

import type { Data } from "./data.ts";
import * as format from "./format.ts";

/** Core is a core of a device, and which pieces of data.cores are its. */
export interface Core {
  number: number;
  pieces: number[];
}

/** coresOf are the cores of a device that did something, by number. */
export function coresOf(data: Data, device: number): Core[] {
  const cores = new Map<number, number[]>();
  const c = data.cores;
  for (let i = 0; i < (c?.task.length ?? 0); i++) {
    if (Math.max(0, data.tasks.device[c!.task[i]]) !== device) continue;
    const pieces = cores.get(c!.core[i]);
    if (pieces) pieces.push(i);
    else cores.set(c!.core[i], [i]);
  }
  return [...cores].sort((a, b) => a[0] - b[0]).map(([number, pieces]) => ({ number, pieces }));
}

const known = new WeakMap<Data, Map<number, number[]>>(); // pieces, by task

function piecesOf(data: Data): Map<number, number[]> {
  let of = known.get(data);
  if (of) return of;
  known.set(data, (of = new Map()));
  data.cores?.task.forEach((t, i) => {
    const list = of.get(t);
    if (list) list.push(i);
    else of.set(t, [i]);
  });
  return of;
}

const mostFields = 32;

/** coreFields say which core did what of a task. */
export function coreFields(data: Data, task: number): [string, string][] {
  const c = data.cores;
  const pieces = [...(piecesOf(data).get(task) ?? [])].sort((a, b) => c!.core[a] - c!.core[b]);
  return pieces.slice(0, mostFields).map((i) => [
    `core ${c!.core[i]}`, `${format.plural(c!.blocks[i], "block")} from block ${format.count(c!.first[i])} on, ${format.time(c!.end[i] - c!.start[i])}`,
  ]);
}
