// Tasks of a model that follow each other on a stream and do the same are one box, so that a drawing of thousands fits.

import { NONE, records, waits, type Data } from "./data.ts";

export type Graph = Data["models"][number];

/** Box is tasks of a model that are drawn as one. */
export interface Box {
  stream: number;
  kind: number;
  direction: number;
  kernel: string;
  count: number;
  bytes: number;
  layer: number; // longest way to it
  after: number[]; // boxes whose records it waits for
}

/** boxes joins the tasks of a model. What records or waits stays alone: arrows go there. */
export function boxes(g: Graph): Box[] {
  const list: Box[] = [];
  const boxOf: number[] = [];
  const last = new Map<number, number>(); // stream -> its last box
  for (let i = 0; i < g.kind.length; i++) {
    const before = last.get(g.stream[i]);
    const old = before === undefined ? undefined : list[before];
    const alone = records(g.kind[i]) || waits(g.kind[i]);
    if (old && !alone && old.kind === g.kind[i] && old.direction === g.direction[i] && old.kernel === g.kernel[i]) {
      old.count++;
      old.bytes += g.bytes[i];
      boxOf.push(before!);
      continue;
    }
    const box: Box = {
      stream: g.stream[i], kind: g.kind[i], direction: g.direction[i], kernel: g.kernel[i], count: 1, bytes: g.bytes[i],
      layer: old ? old.layer + 1 : 0, after: [],
    };
    if (g.after[i] !== NONE) {
      const from = boxOf[g.after[i]];
      box.after.push(from);
      box.layer = Math.max(box.layer, list[from].layer + 1);
    }
    last.set(box.stream, list.length);
    boxOf.push(list.length);
    list.push(box);
  }
  return list;
}
