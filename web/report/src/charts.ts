// The plots: bandwidth and run-ahead under the timeline, at the same scale, and the sizes of copies.

import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { h } from "./dom.ts";
import * as format from "./format.ts";
import { Category, categoryKeys, categoryNames, shortNames } from "./model.ts";
import { ahead, bandwidth, groups, highest, inModels, sizes, speeds, type Steps } from "./series.ts";
import type { State } from "./state.ts";
import { colours } from "./theme.ts";
import type { Layout } from "./timeline/layout.ts";

const height = 118;

/** Plot is a plot along time that follows the timeline. */
abstract class Plot {
  readonly element: HTMLElement;
  protected plot: uPlot | null = null;
  protected readonly box = h("div", { className: "plot" });
  protected readonly legend = h("div", { className: "legend" });
  private width = 0;
  private due = 0;

  constructor(title: string, note: string, protected readonly state: State, protected readonly layout: Layout) {
    this.element = h("figure", { className: "chart" }, h("figcaption", {}, h("h3", {}, title), h("span", { className: "quiet" }, note), this.legend), this.box);
    this.element.setAttribute("aria-label", title);
    new ResizeObserver(() => this.make()).observe(this.box);
    state.listen((change) => {
      if (change === "theme" || change === "filter" || change === "layout") this.make(true);
      if (change === "view") this.later();
      if (change === "hover") this.point();
    });
  }

  protected abstract series(): { label: string; colour: string }[];
  protected abstract values(parts: number): number[][]; // times, the series, then the highest of each if they are means
  protected abstract write(value: number): string;
  protected increments(): number[] | undefined {
    return undefined; // of the scale; those of uPlot
  }

  private make(always = false): void {
    const width = this.box.clientWidth;
    if (width === 0 || (width === this.width && !always)) return;
    this.width = width;
    this.plot?.destroy();
    const c = colours();
    const axis: uPlot.Axis = { stroke: c.muted, grid: { stroke: c.line, width: 1 }, ticks: { show: false }, font: "11px system-ui, 'Liberation Sans', sans-serif" };
    const narrow = this.layout.gutter === 0;
    const series = this.series();
    const values = this.values(this.parts());
    this.plot = new uPlot({
      width, height, padding: [8, 0, 8, 0], legend: { show: false },
      cursor: { y: false, drag: { x: false, y: false }, points: { size: 6 } },
      scales: { x: { time: false, range: () => [this.state.from, this.state.to] }, y: { range: (_u, _min, max) => [0, max > 0 ? max * 1.1 : 1] } },
      axes: [
        { ...axis, show: false },
        {
          ...axis, size: narrow ? 0 : this.layout.gutter, gap: 8, space: 28, incrs: this.increments(),
          values: (_u, splits) => splits.map((v) => (narrow ? "" : this.write(v))),
        },
      ],
      hooks: {
        setCursor: [(u) => this.read(u.cursor.idx ?? null)],
        draw: [(u) => {
          if (!narrow) return;
          // Without a gutter the scale is written inside.
          u.ctx.save();
          u.ctx.fillStyle = c.muted;
          u.ctx.font = `${11 * devicePixelRatio}px system-ui, 'Liberation Sans', sans-serif`;
          u.ctx.textAlign = "left";
          u.ctx.textBaseline = "top";
          u.ctx.fillText(this.write(u.scales.y.max! / 1.1), u.bbox.left + 4, u.bbox.top + 2);
          u.ctx.restore();
        }],
      },
      series: [{}, ...values.slice(1).map((_, k): uPlot.Series => {
        const { label, colour } = series[k % series.length];
        const main = k < series.length;
        return {
          label, stroke: colour + (main ? "" : "80"), width: main ? 1.5 : 1, fill: main ? colour + "2a" : undefined,
          paths: uPlot.paths.stepped!({ align: 1 }), points: { show: false },
        };
      })],
    }, values as uPlot.AlignedData, this.box);
    this.read(null);
  }

  private parts(): number {
    return Math.max(20, Math.floor((this.width - this.layout.gutter) / 3));
  }

  /** later makes the plot again soon: at once for a short run, else when there was time for the timeline. */
  private later(): void {
    if (this.due) return;
    const wait = this.state.model.tasks.count > 20_000 ? 150 : 0;
    const update = () => {
      this.due = 0;
      this.plot?.setData(this.values(this.parts()) as uPlot.AlignedData);
      this.read(null);
    };
    this.due = wait ? window.setTimeout(update, wait) : requestAnimationFrame(update);
  }

  /** point shows the values at the time that the pointer is at on the timeline. */
  private point(): void {
    if (!this.plot || this.plot.over.matches(":hover")) return;
    const t = this.state.hoverTime;
    this.plot.setCursor(t === null ? { left: -10, top: -10 } : { left: this.plot.valToPos(t, "x"), top: 0 });
  }

  private read(index: number | null): void {
    if (!this.plot) return;
    const u = this.plot;
    const series = this.series();
    this.legend.replaceChildren(...series.map((s, k) => {
      const list = u.data[k + 1] as number[];
      const top = (u.data[k + 1 + series.length] ?? list) as number[];
      const value = index === null ? `up to ${this.write(top.reduce((a, b) => Math.max(a, b), 0))}` : this.write(list[index] ?? 0);
      return h("span", { className: "item" }, h("i", { style: `background:${s.colour}` }), `${s.label} ${value}`);
    }));
  }
}

export class Bandwidth extends Plot {
  private steps: Map<number, Steps> | null = null;
  constructor(state: State, layout: Layout) {
    super("Bandwidth", state.model.data.checked ? "the checker slows copies down: not what the machine can do" : "mean, and the highest as a thin line", state, layout);
  }
  private list() {
    const { model, filter } = this.state;
    return model.categories.filter((c) => c <= Category.Both && !filter.categories.has(c));
  }
  protected series() {
    const c = colours();
    return this.list().map((k) => ({ label: shortNames[k], colour: c.category[k] }));
  }
  protected values(parts: number) {
    const { model, from, to } = this.state;
    const { times, rates } = bandwidth(model, from, to, parts);
    this.steps ??= speeds(model);
    const none = { times: new Float64Array(), levels: new Float64Array() };
    const list = this.list();
    return [times, ...list.map((k) => rates.get(k)!), ...list.map((k) => highest(this.steps!.get(k) ?? none, from, to, parts).levels)];
  }
  protected write(v: number) {
    return v === 0 ? "0" : format.rate(v);
  }
}

export class Ahead extends Plot {
  private steps: ReturnType<typeof ahead> | null = null;
  constructor(state: State, layout: Layout) {
    super("Queue depth", "tasks submitted, not finished", state, layout);
  }
  protected series() {
    return [{ label: "tasks", colour: colours().category[Category.Event] }];
  }
  protected values(parts: number) {
    this.steps ??= ahead(this.state.model);
    const { times, levels } = highest(this.steps, this.state.from, this.state.to, parts);
    return [times, levels];
  }
  protected write(v: number) {
    return format.count(v);
  }
  protected increments() {
    return [1, 2, 5].flatMap((n) => Array.from({ length: 9 }, (_, e) => n * 10 ** e)).sort((a, b) => a - b); // there are no half tasks
  }
}

/** histogram of copy sizes: elements, so that it is text to those who cannot see it and sharp on paper. A bar is a filter. */
export function histogram(state: State): HTMLElement {
  const { first, counts, bytes } = sizes(state.model);
  const totals = bytes.map((_, b) => [...counts.values()].reduce((sum, list) => sum + list[b], 0));
  const top = Math.max(1, ...totals);
  const columns = totals.map((total, b) => {
    const [low, high] = [2 ** (first + b), 2 ** (first + b + 1)];
    const parts = [...counts].filter(([, list]) => list[b] > 0);
    const label = `${format.bytes(low)} to ${format.bytes(high)}: ${format.plural(total, "copy", "copies")}, ${format.bytes(bytes[b])}` +
      (parts.length > 1 ? ` (${parts.map(([c, list]) => `${shortNames[c]} ${format.count(list[b])}`).join(", ")})` : parts.length ? `, ${categoryNames[parts[0][0]]}` : "");
    return h("button", {
      className: "column", type: "button", title: label, "aria-label": label, disabled: total === 0,
      onclick: () => state.refine({ minBytes: low, maxBytes: high - 1 }),
    },
      h("span", { className: "number" }, total > 0 ? format.count(total) : ""),
      ...parts.map(([c, list]) => h("span", { className: "part " + categoryKeys[c], style: `height:${(list[b] / top) * 100}px` })),
      h("span", { className: "size" }, format.bytes(low).replace("iB", "").replace(" B", "").replace(" ", "")));
  });
  return h("section", { className: "card", id: "sizes" },
    h("h2", {}, "Sizes of copies"),
    h("p", { className: "quiet" }, "Copies by size, a column for each power of two; a batch counts once, a copy in a model in each run. Choose a column to filter the timeline."),
    columns.length > 0 ? h("div", { className: "histogram", role: "group", "aria-label": "Histogram of copy sizes" }, ...columns)
      : h("p", { className: "empty" }, "No copy was made."),
    columns.length > 0 ? byMemory(state) : "");
}

/** byMemory is a table of copies by direction and host memory: what pinned memory gains shows here. */
function byMemory(state: State): HTMLElement {
  const { data } = state.model;
  const cells = ["Copies", "Bytes", "Speed"];
  return h("div", { className: "wide", tabIndex: 0, role: "region", "aria-label": "Copies by direction and memory" }, h("table", {},
    h("caption", { className: "unseen" }, "Copies by direction and host memory"),
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Direction"), ...cells.map((c) => h("th", { scope: "col" }, c)))),
    h("tbody", {}, ...groups(state.model).map((g) => h("tr", {},
      h("th", { scope: "row", title: categoryNames[g.category] }, h("span", { className: "item" }, h("i", { className: categoryKeys[g.category] }), shortNames[g.category],
        h("span", { className: "quiet" }, g.memory === inModels ? "in models" : data.strings.memories[g.memory]))),
      ...[format.count(g.count), format.bytes(g.bytes), g.time > 0 ? format.rate(g.bytes / g.time) : "–"].map((text) => h("td", {}, text)))))));
}
