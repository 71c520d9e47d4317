// window.ropeway: what the page shows, for tests and for the curious. It reads; it changes nothing.

import type { State } from "./state.ts";
import type { Timeline } from "./timeline/timeline.ts";
import { categoryKeys } from "./model.ts";

export function expose(state: State, timeline: Timeline, loaded: number): void {
  const { model } = state;
  const api = {
    /** loaded is how many milliseconds after the page was opened its first picture was there. */
    loaded,
    frames: () => timeline.frames,
    /** visible is the rows of the timeline with the bars in sight, and the arrows. */
    visible() {
      const frame = timeline.look();
      return {
        from: state.from,
        to: state.to,
        duration: model.duration,
        rows: frame.rows.map(({ row, bars, top, height }) => ({
          key: row.key, kind: row.kind, name: row.name, note: row.note, top, height,
          bars: bars.map((b) => ({ of: row.of, index: b.index, count: b.count, x: b.x, width: b.width, category: categoryKeys[b.category], matches: b.matches })),
        })),
        arrows: frame.arrows.map((a) => ({ ...a })),
        arrowsLeft: frame.arrowsLeft,
        range: state.range,
        gutter: timeline.layout.gutter,
        findings: model.data.findings.filter((f) => f.time >= state.from && f.time <= state.to).length,
      };
    },
    /** where is the middle of a task's or call's bar in its own row, in pixels of the window. */
    where(of: "task" | "call" | "finding" | "range", index: number) {
      const { layout } = timeline;
      const box = timeline.element.querySelector("canvas")!.getBoundingClientRect();
      const [from, to] = state.span({ of, index });
      const y = layout.laneTop(layout.rowOf({ of, index }), layout.laneOf({ of, index })) + layout.bar(layout.rowOf({ of, index })) / 2;
      return { x: box.left + layout.x((Math.max(from, state.from) + Math.min(to, state.to)) / 2), y: box.top + y };
    },
    /** axis is the times that are written on it. */
    axis: () => timeline.axis(),
    selected: () => (state.selected ? { ...state.selected } : null),
    matches: () => ({ tasks: state.matches.tasks, inside: state.matches.inside, calls: state.matches.calls, all: state.matches.all }),
  };
  Object.defineProperty(window, "ropeway", { value: Object.freeze(api) });
}
