// What the page shows now: the time range, the filter, what is selected. Parts of the page change it and listen to it.

import { match, noFilter, type Filter, type Matches } from "./filter.ts";
import { NONE } from "./data.ts";
import { callEnd, rangeEnd, taskEnd, taskStart, type Model } from "./model.ts";

export interface Thing {
  of: "task" | "call" | "finding" | "range";
  index: number;
}

export type Change = "view" | "filter" | "selection" | "range" | "theme" | "hover" | "layout" | "rows";

export class State {
  from: number;
  to: number;
  filter: Filter = noFilter();
  matches: Matches;
  selected: Thing | null = null;
  range: [number, number] | null = null; // of time, marked to be measured
  hoverTime: number | null = null;
  arrows = true;
  readonly pinned = new Set<string>(); // keys of rows that stay at the top
  readonly folded = new Set<string>(); // and of those that are collapsed; of a group, all its rows
  private readonly listeners: ((change: Change) => void)[] = [];

  constructor(readonly model: Model) {
    this.matches = match(model, this.filter);
    this.from = 0;
    this.to = model.duration;
    this.fit(false);
  }

  listen(f: (change: Change) => void): void {
    this.listeners.push(f);
  }

  notify(change: Change): void {
    for (const f of this.listeners) f(change);
  }

  // View

  /** look shows a range of time. The run stays in sight, and a range is never shorter than 20 ns. */
  look(from: number, to: number, notify = true): void {
    const all = this.model.duration;
    const margin = all * 0.02;
    const span = Math.min(Math.max(to - from, 20), all + 2 * margin);
    const middle = (from + to) / 2;
    from = Math.min(Math.max(middle - span / 2, -margin), all + margin - span);
    this.from = from;
    this.to = from + span;
    if (notify) this.notify("view");
  }

  /** fit shows the part of the run that has work, or all of the run where that is most of it. */
  fit(notify = true): void {
    const [from, to] = this.model.work;
    if (to - from > 0.8 * this.model.duration) return this.all(notify);
    const margin = Math.max((to - from) * 0.02, 100);
    this.look(from - margin, to + margin, notify);
  }

  all(notify = true): void {
    this.look(-this.model.duration * 0.01, this.model.duration * 1.01, notify);
  }

  /** mark marks a range of time, or none. */
  mark(range: [number, number] | null): void {
    this.range = range;
    this.notify("range");
  }

  /** focus is the middle of what is marked or selected, as far as it is in sight, else of the view. */
  private focus(): number {
    const [a, b] = this.range ?? (this.selected ? this.span(this.selected) : [this.from, this.to]);
    const [from, to] = [Math.max(a, this.from), Math.min(b, this.to)];
    return from <= to ? (from + to) / 2 : (this.from + this.to) / 2;
  }

  /** zoom makes the range factor times as long and keeps time at where it is on the screen. */
  zoom(factor: number, at = this.focus()): void {
    const span = Math.max(this.to - this.from, 20);
    const next = Math.max(span * factor, 20);
    const from = at - ((at - this.from) / span) * next;
    this.look(from, from + next);
  }

  /** pan moves by a share of the range. */
  pan(share: number): void {
    const by = (this.to - this.from) * share;
    this.look(this.from + by, this.to + by);
  }

  /** bring makes [from, to] visible, at the scale of now if it fits. */
  bring(from: number, to: number): void {
    const span = this.to - this.from;
    if (from >= this.from && to <= this.to) return;
    if (to - from < span * 0.8) this.look((from + to) / 2 - span / 2, (from + to) / 2 + span / 2);
    else this.frame(from, to);
  }

  /** frame fills the screen with [from, to]; a moment gets a tenth of the work around it. */
  frame(from: number, to: number): void {
    const [first, last] = this.model.work;
    const margin = to > from ? Math.max((to - from) * 0.08, 200) : Math.max((last - first) * 0.05, 200);
    this.look(from - margin, to + margin);
  }

  /** flip pins or collapses a row, or undoes it. It reports which. */
  flip(what: "pinned" | "folded", key: string): boolean {
    const on = !this[what].delete(key);
    if (on) this[what].add(key);
    this.notify("rows");
    return on;
  }

  // Filter

  refine(change: Partial<Filter>): void {
    this.filter = { ...this.filter, ...change };
    this.matches = match(this.model, this.filter);
    this.notify("filter");
  }

  clearFilter(): void {
    this.refine(noFilter());
  }

  /** showFinding shows both ends of a finding: the calls that submitted its tasks, the tasks, and where it was found. */
  showFinding(index: number): void {
    const f = this.model.data.findings[index];
    const calls = f.tasks.map((t) => this.model.tasks.call[t]).filter((c) => c !== NONE);
    if (f.tasks.length > 0) this.show(f.rule, f.tasks, calls, f.time);
    else this.frame(f.time, f.time);
    this.select({ of: "finding", index });
  }

  /** show leaves only what an advice or a finding is about in colour, and looks at it, and at a moment if there is one. */
  show(title: string, tasks: number[], calls: number[], moment?: number): void {
    this.refine({ ...noFilter(), only: { title, tasks: new Set(tasks), calls: new Set(calls) } });
    let from = moment ?? Infinity;
    let to = moment ?? -Infinity;
    for (const i of tasks) {
      from = Math.min(from, taskStart(this.model, i));
      to = Math.max(to, taskEnd(this.model, i));
    }
    for (const i of calls) {
      from = Math.min(from, this.model.calls.start[i]);
      to = Math.max(to, callEnd(this.model, i));
    }
    if (from <= to) this.frame(from, to);
  }

  // Selection

  select(thing: Thing | null): void {
    this.selected = thing;
    this.notify("selection");
  }

  /** go selects a thing and makes it visible. */
  go(thing: Thing): void {
    const [from, to] = this.span(thing);
    this.bring(from, to);
    this.select(thing);
  }

  span(thing: Thing): [number, number] {
    const { model } = this;
    if (thing.of === "task") return [taskStart(model, thing.index), taskEnd(model, thing.index)];
    if (thing.of === "call") return [model.calls.start[thing.index], callEnd(model, thing.index)];
    if (thing.of === "range") return [model.ranges.start[thing.index], rangeEnd(model, thing.index)];
    const t = model.data.findings[thing.index].time;
    return [t, t];
  }

  /** next selects the next task that matches, or the one before; calls if no task does. */
  next(step: 1 | -1): void {
    const { matches, selected, model } = this;
    const of = matches.tasks + matches.inside > 0 ? "task" : "call";
    const hits = of === "task" ? matches.task : matches.call;
    if (of === "call" && matches.calls === 0) return;
    const n = of === "task" ? model.tasks.all : model.calls.count;
    let i = selected?.of === of ? selected.index : step > 0 ? -1 : n;
    do i = (i + step + n) % n;
    while (!hits[i]);
    this.go({ of, index: i });
  }
}
