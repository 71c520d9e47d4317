// Level of detail: the bars of a lane at a scale. Bars below a pixel are merged into columns that show what was most there
// and how much of it, so what is drawn is bounded by the screen. While the scale stays, panning uses what was merged before.

import { NONE } from "../data.ts";
import type { Matches } from "../filter.ts";
import { Category, firstVisible, type Lane, type Model, type Row } from "../model.ts";

/** What a bar shows beyond the categories: a call that mostly waited. */
export const blocked = Category.Range + 1;
export const styles = blocked + 1;
export const levels = 4; // of how full a column is; the last one is for bars too

/** Pieces are bars and columns, by x, in pixels since time 0. */
export interface Pieces {
  x: number[];
  width: number[];
  reach: number[]; // how far this one and those before it go
  style: number[];
  level: number[];
  index: number[]; // of the task or call, of a column the first one
  count: number[]; // 0 for a bar with a width of its own
  hit: boolean[]; // it matches the filter
  failed: boolean[];
}

/** Merger merges lanes, and remembers what it made. */
export class Merger {
  private readonly known = new Map<Lane, { scale: number; matches: Matches; pieces: Pieces }>();
  private readonly sums = [new Float64Array(styles), new Float64Array(styles)]; // not matching, matching

  constructor(private readonly model: Model) {}

  /** pieces are those of the lane that may be seen in [from, to], at scale pixels a nanosecond, and more of them. */
  pieces(row: Row, lane: Lane, matches: Matches, from: number, to: number, scale: number): Pieces {
    if (lane.items.length < 500) return this.merge(row, lane, matches, from, to, scale);
    const before = this.known.get(lane);
    if (before && Math.abs(before.scale / scale - 1) < 1e-9 && before.matches === matches) return before.pieces; // panning rounds
    if (to - from < this.model.duration / 20) {
      this.known.delete(lane);
      return this.merge(row, lane, matches, from, to, scale);
    }
    const pieces = this.merge(row, lane, matches, -Infinity, Infinity, scale);
    this.known.set(lane, { scale, matches, pieces });
    return pieces;
  }

  private merge(row: Row, lane: Lane, matches: Matches, from: number, to: number, scale: number): Pieces {
    const { tasks, calls } = this.model;
    const ofTask = row.of === "task";
    const ofCall = row.of === "call";
    const hits = ofTask ? matches.task : ofCall ? matches.call : matches.range;
    const out: Pieces = { x: [], width: [], reach: [], style: [], level: [], index: [], count: [], hit: [], failed: [] };
    const [misses, found] = this.sums;

    let reach = -Infinity;
    const put = (x: number, width: number) => {
      reach = Math.max(reach, x + width);
      out.x.push(x);
      out.width.push(width);
      out.reach.push(reach);
    };

    // The column that is being filled.
    let column = NaN;
    let count = 0;
    let first = NONE;
    let hit = false;
    let failed = false;
    const close = () => {
      if (count === 0) return;
      const sums = hit ? found : misses;
      let style = 0;
      let total = 0;
      for (let s = 0; s < styles; s++) {
        total += sums[s];
        if (sums[s] > sums[style]) style = s;
      }
      found.fill(0);
      misses.fill(0);
      put(column, 1);
      out.style.push(style);
      out.level.push(count === 1 || total > 0.75 ? 3 : total > 0.4 ? 2 : total > 0.12 ? 1 : 0);
      out.index.push(first);
      out.count.push(count);
      out.hit.push(hit);
      out.failed.push(failed);
      count = 0;
      hit = failed = false;
    };

    for (let k = firstVisible(lane, from); k < lane.items.length && lane.start[k] <= to; k++) {
      const i = lane.items[k];
      const x = lane.start[k] * scale;
      const width = (lane.end[k] - lane.start[k]) * scale;
      const bad = ofTask ? tasks.failed[i] === 1 : ofCall && calls.code[i] !== 0;
      const style = ofTask ? tasks.category[i] : ofCall ? Category.Call : Category.Range;
      if (width < 1) {
        const at = Math.floor(x);
        if (at !== column) {
          close();
          column = at;
          first = i;
        }
        count++;
        failed ||= bad;
        hit ||= hits[i] === 1;
        const waited = ofCall && calls.blocked[i] * 2 > lane.end[k] - lane.start[k];
        (hits[i] ? found : misses)[waited ? blocked : style] += Math.max(width, 1e-3);
        continue;
      }
      close();
      column = NaN;
      put(x, width);
      out.style.push(style);
      out.level.push(levels - 1);
      out.index.push(i);
      out.count.push(0);
      out.hit.push(hits[i] === 1);
      out.failed.push(bad);
    }
    close();
    return out;
  }
}

/** firstAt is the first piece that may reach x. */
export function firstAt(pieces: Pieces, x: number): number {
  let low = 0;
  let high = pieces.x.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (pieces.reach[middle] < x) low = middle + 1;
    else high = middle;
  }
  return low;
}
