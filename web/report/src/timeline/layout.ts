// Where things are on the timeline's canvas.

import { NONE, waits } from "../data.ts";
import { callEnd, firstVisible, rowOfTask, taskEnd, taskStart, type Lane, type Row } from "../model.ts";
import type { State, Thing } from "../state.ts";

export const axisHeight = 26;
const laneHeight = 18;
const padding = 4;
const groupHeight = 24;
const findingsHeight = 24;
const foldedHeight = 12;
export const foldedBar = foldedHeight - padding - 1; // how high bars are in a collapsed row
const pinWidth = 26; // at the right of a name

export class Layout {
  width = 0; // of the canvas
  height = 0;
  gutter = 0; // left of the bars, for names; 0 on a phone, where names are above the bars
  labelHeight = 0; // above the bars, for names
  scroll = 0;
  tops: number[] = [];
  heights: number[] = []; // 0: its group is collapsed
  total = 0;
  body = axisHeight; // where rows begin that scroll; above it are the pinned ones
  pointed = NONE; // the row whose name the pointer is on

  chosen: number | null = null; // the gutter's width, where the reader has set it
  private readonly widest: number; // that any name needs

  constructor(readonly state: State) {
    this.widest = Math.max(0, ...state.model.rows.map((r) => (r.kind === "group" ? 0 : r.name.length * 6.6 + r.note.length * 5.9 + 40 + pinWidth)));
  }

  /** measure places the rows. */
  measure(width: number, height: number): void {
    this.width = width;
    this.height = height;
    const narrow = width < 560;
    this.gutter = narrow ? 0 : Math.round(Math.min(Math.max(this.chosen ?? Math.min(this.widest, 320), 60), width * 0.4));
    this.labelHeight = narrow ? 13 : 0;
    const { rows } = this.state.model;
    this.tops = new Array<number>(rows.length);
    this.heights = rows.map((row) => this.rowHeight(row));
    let y = axisHeight;
    for (const pinned of [true, false]) {
      for (let r = 0; r < rows.length; r++) {
        if (this.pinned(r) !== pinned) continue;
        this.tops[r] = y;
        y += this.heights[r];
      }
      if (pinned) this.body = y;
    }
    this.total = y + 6;
  }

  private rowHeight(row: Row): number {
    const { folded, pinned } = this.state;
    if (folded.has(row.group) && !pinned.has(row.key)) return 0;
    if (row.kind === "group") return groupHeight;
    if (folded.has(row.key)) return foldedHeight + this.labelHeight;
    if (row.kind === "findings") return findingsHeight + this.labelHeight;
    return Math.max(1, row.lanes.length) * laneHeight + padding + this.labelHeight;
  }

  /** pinned reports whether a row stays at the top. Groups do not. */
  pinned(row: number): boolean {
    const { key, kind } = this.state.model.rows[row];
    return kind !== "group" && this.state.pinned.has(key);
  }

  folded(row: number): boolean {
    return this.state.folded.has(this.state.model.rows[row].key);
  }

  /** top of a row on the canvas, as it is scrolled now. */
  top(row: number): number {
    return this.pinned(row) ? this.tops[row] : this.tops[row] - this.scroll;
  }

  /** seen reports whether a row is on the canvas. */
  seen(row: number): boolean {
    const top = this.top(row);
    return this.heights[row] > 0 && (this.pinned(row) || (top < this.height && top + this.heights[row] > this.body));
  }

  laneTop(row: number, lane: number): number {
    return this.top(row) + this.labelHeight + padding / 2 + (this.folded(row) ? 0 : lane * laneHeight);
  }

  /** bar is how high the bars of a row are. */
  bar(row: number): number {
    return this.folded(row) ? foldedBar : this.barHeight;
  }

  readonly barHeight = laneHeight - 3;

  /** control is what a click on a name does: pin its row, or collapse it. */
  control(x: number, y: number): { row: number; what: "pinned" | "folded" } | null {
    const row = this.rowAt(y);
    if (row === NONE) return null;
    const { kind, name } = this.state.model.rows[row];
    if (kind === "group") return x < Math.max(this.gutter, 40 + name.length * 7) ? { row, what: "folded" } : null;
    if (this.gutter === 0) return y < this.top(row) + this.labelHeight && x < 24 + name.length * 7 ? { row, what: "folded" } : null;
    if (x > this.gutter - 4) return null;
    return { row, what: x > this.gutter - pinWidth ? "pinned" : "folded" };
  }

  /** scale is pixels a nanosecond. */
  get scale(): number {
    return (this.width - this.gutter) / (this.state.to - this.state.from);
  }

  x(time: number): number {
    return this.gutter + (time - this.state.from) * this.scale;
  }

  time(x: number): number {
    return this.state.from + (x - this.gutter) / this.scale;
  }

  rowAt(y: number): number {
    if (y < axisHeight) return NONE;
    const pinned = y < this.body;
    const at = pinned ? y : y + this.scroll;
    return this.tops.findIndex((top, r) => this.pinned(r) === pinned && at >= top && at < top + this.heights[r]);
  }

  /** at is what is drawn at a point: the bar under it or within reach of a finger, and how many bars share its pixel. */
  at(x: number, y: number, reach = 3): { thing: Thing; more: number; row: number } | null {
    const { model } = this.state;
    const r = this.rowAt(y);
    if (r === NONE || x < this.gutter) return null;
    const row = model.rows[r];
    if (row.of === "finding") {
      const best = closest(model.data.findings.map((f) => Math.abs(this.x(f.time) - x)));
      return best.distance <= reach + 6 ? { thing: { of: "finding", index: best.index }, more: 0, row: r } : null;
    }
    if (row.of === "none") return null;
    const l = Math.floor((y - this.laneTop(r, 0)) / laneHeight);
    const lanes = this.folded(r) ? row.lanes : [row.lanes[Math.min(Math.max(l, 0), row.lanes.length - 1)]];
    for (const lane of lanes) {
      const found = this.inLane(lane, x, reach);
      if (found) return { thing: { of: row.of, index: found.index }, more: found.more, row: r };
    }
    return null;
  }

  private inLane(lane: Lane, x: number, reach: number): { index: number; more: number } | null {
    const t = this.time(x);
    const slack = reach / this.scale;
    let best = NONE;
    let nearest = Infinity;
    let shared = 0;
    for (let i = firstVisible(lane, t - slack); i < lane.items.length && lane.start[i] <= t + slack; i++) {
      const away = Math.max(lane.start[i] - t, t - lane.end[i], 0) * this.scale;
      if (away <= 0.5) shared++;
      if (away > reach || away > nearest) continue;
      nearest = away;
      best = i;
      if (shared > 9999) break;
    }
    return best === NONE ? null : { index: lane.items[best], more: Math.max(0, shared - 1) };
  }

  rowOf(thing: Thing): number {
    const { model } = this.state;
    if (thing.of === "task") return rowOfTask(model, thing.index);
    if (thing.of === "call") return model.rowOfThread.get(model.calls.thread[thing.index]) ?? NONE;
    if (thing.of === "range") return model.rowOfRanges.get(model.ranges.thread[thing.index]) ?? NONE;
    return model.rows.findIndex((row) => row.of === "finding");
  }

  laneOf(thing: Thing): number {
    if (thing.of === "finding") return 0;
    const { laneOfTask, laneOfCall, laneOfRange } = this.state.model;
    return { task: laneOfTask, call: laneOfCall, range: laneOfRange }[thing.of][thing.index];
  }
}

function closest(distances: number[]): { index: number; distance: number } {
  let index = NONE;
  let distance = Infinity;
  distances.forEach((d, i) => {
    if (d < distance) [index, distance] = [i, d];
  });
  return { index, distance };
}

// Arrows

export interface Arrow {
  kind: "submit" | "event" | "wait";
  from: number; // submit: a call; event: the task that recorded; wait: the task that was waited for
  to: number; // a task; wait: the call that waited
  strong: boolean; // of what is selected or under the pointer
}

const mostArrows = 250;
const arrowSpace = 8; // pixels of width that each of them needs to be distinguished from the next

/** arrows are those of the selected thing and, as long as they can be distinguished, all that are in sight. */
export function arrows(layout: Layout, hovered: Thing | null): { list: Arrow[]; left: boolean } {
  const { state } = layout;
  const { model, from, to } = state;
  const { tasks } = model;
  const list: Arrow[] = [];
  const seen = new Set<string>();
  const add = (kind: Arrow["kind"], a: number, b: number, strong: boolean) => {
    const key = kind[0] + a + ":" + b;
    if (seen.has(key)) return;
    seen.add(key);
    list.push({ kind, from: a, to: b, strong });
  };
  const submit = (task: number, strong: boolean) => {
    if (task < tasks.count && tasks.call[task] !== NONE) add("submit", tasks.call[task], task, strong);
  };
  const strong = (thing: Thing | null) => {
    if (thing?.of === "call") {
      for (const t of (model.tasksOfCall.get(thing.index) ?? []).slice(0, mostArrows)) submit(t, true);
      if (model.calls.awaited[thing.index] !== NONE) add("wait", model.calls.awaited[thing.index], thing.index, true);
    }
    if (thing?.of !== "task") return;
    submit(thing.index, true);
    for (const t of model.before.get(thing.index) ?? []) add("event", t, thing.index, true);
    for (const t of model.after.get(thing.index) ?? []) add("event", thing.index, t, true);
    for (const c of model.awaitedBy.get(thing.index) ?? []) add("wait", thing.index, c, true);
  };
  strong(state.selected);
  strong(hovered);
  if (!state.arrows) return { list, left: false };

  // All that are in sight, or none: some of them would say that the others are not there.
  const most = Math.min(mostArrows, (layout.width - layout.gutter) / arrowSpace);
  const { task: hit } = state.matches;
  const { edges } = model.data;
  const events: number[] = [];
  for (let e = 0; e < edges.from.length && events.length <= most; e++) {
    const [a, b] = [taskEnd(model, edges.from[e]), taskEnd(model, edges.to[e])];
    if (a <= to && b >= from && (a >= from || b <= to) && (hit[edges.from[e]] || hit[edges.to[e]])) events.push(e);
  }
  if (events.length <= most) for (const e of events) add("event", edges.from[e], edges.to[e], false);
  const submits: number[] = [];
  for (let i = 0; i < tasks.count && tasks.submit[i] <= to && submits.length <= most; i++) {
    const start = taskStart(model, i);
    if (start >= from && hit[i] && tasks.call[i] !== NONE && tasks.stream[i] !== NONE && (tasks.submit[i] >= from || start <= to)) submits.push(i);
  }
  if (submits.length <= most) for (const i of submits) submit(i, false);
  return { list, left: Math.max(events.length, submits.length) > most };
}

/** ends are the two points of an arrow. */
export function ends(layout: Layout, arrow: Arrow): [number, number, number, number] | null {
  const { model } = layout.state;
  if (arrow.kind === "wait") return waitEnds(layout, arrow);
  const toRow = rowOfTask(model, arrow.to);
  if (toRow === NONE || !layout.heights[toRow]) return null;
  const y1 = layout.laneTop(toRow, model.laneOfTask[arrow.to]);
  if (arrow.kind === "submit") {
    const row = model.rowOfThread.get(model.calls.thread[arrow.from]);
    if (row === undefined || !layout.heights[row]) return null;
    const y0 = layout.laneTop(row, model.laneOfCall[arrow.from]) + layout.bar(row);
    return [layout.x(model.tasks.submit[arrow.to]), y0, layout.x(taskStart(model, arrow.to)), y0 < y1 ? y1 : y1 + layout.bar(toRow)];
  }
  const fromRow = rowOfTask(model, arrow.from);
  if (fromRow === NONE || !layout.heights[fromRow]) return null;
  const y0 = layout.laneTop(fromRow, model.laneOfTask[arrow.from]);
  const done = taskEnd(model, arrow.from);
  // A wait that was there first went on when the event came; a later one found it there.
  const arrives = waits(model.tasks.kind[arrow.to]) ? Math.max(done, taskStart(model, arrow.to)) : taskStart(model, arrow.to);
  const down = y0 < y1;
  return [layout.x(done), down ? y0 + layout.bar(fromRow) : y0, layout.x(arrives), down ? y1 : y1 + layout.bar(toRow)];
}

/** waitEnds are those of an arrow from the end of a task to the end of the call that waited for it. */
function waitEnds(layout: Layout, { from: task, to: call }: Arrow): [number, number, number, number] | null {
  const { model } = layout.state;
  const fromRow = rowOfTask(model, task);
  const toRow = model.rowOfThread.get(model.calls.thread[call]);
  if (fromRow === NONE || toRow === undefined || !layout.heights[fromRow] || !layout.heights[toRow]) return null;
  const y0 = layout.laneTop(fromRow, model.laneOfTask[task]);
  const y1 = layout.laneTop(toRow, model.laneOfCall[call]);
  const down = y0 < y1;
  return [layout.x(taskEnd(model, task)), down ? y0 + layout.bar(fromRow) : y0, layout.x(callEnd(model, call)), down ? y1 : y1 + layout.bar(toRow)];
}
