// Draws the timeline. All bars of one colour are drawn together.

import { Kind, NONE, waits } from "../data.ts";
import { runName } from "../describe.ts";
import * as format from "../format.ts";
import { Category, shortNames, type Lane, type Row } from "../model.ts";
import type { Thing } from "../state.ts";
import { colours, type Colours } from "../theme.ts";
import { axis, barFont, cut, grid, names, zone } from "./around.ts";
import { arrows, axisHeight, ends, foldedBar, type Arrow, type Layout } from "./layout.ts";
import { blocked, firstAt, levels, Merger, styles } from "./merge.ts";

const alphas = [0.45, 0.65, 0.85, 1];

/** Seen is a bar as it was drawn; several bars in one pixel are one of these. */
export interface Seen {
  index: number; // of the first task or call
  count: number;
  x: number;
  width: number;
  category: number;
  matches: boolean;
}

export interface Frame {
  rows: { row: Row; bars: Seen[]; top: number; height: number }[]; // height 0: its group is collapsed
  arrows: Arrow[];
  arrowsLeft: boolean; // there are more, too many to distinguish
}

export class Painter {
  private readonly rects: number[][] = Array.from({ length: styles * levels * 2 }, () => []);
  private readonly outlines: { x: number; y: number; w: number; failed: boolean; dim: boolean }[] = [];
  private readonly labels: { x: number; y: number; w: number; text: string; category: number }[] = [];
  private readonly waits: number[][] = [[], []];
  private readonly held: number[][] = [[], []];
  private hatch: CanvasPattern | null = null;
  private colours!: Colours;
  private marked = new Set<number>(); // tasks of findings
  private readonly merger: Merger;

  constructor(private readonly layout: Layout) {
    this.merger = new Merger(layout.state.model);
    for (const f of layout.state.model.data.findings) for (const t of f.tasks) this.marked.add(t);
  }

  recolour(): void {
    this.hatch = null;
  }

  /** paint draws a frame on ctx, and writes down what it drew if it is asked to. */
  paint(ctx: CanvasRenderingContext2D, hovered: Thing | null, record = false): Frame {
    const { layout } = this;
    const { state } = layout;
    this.colours = colours();
    const frame: Frame = { rows: [], arrows: [], arrowsLeft: false };
    ctx.clearRect(0, 0, layout.width, layout.height);
    for (const pinned of [false, true]) this.zone(ctx, pinned, record ? frame : null);
    ctx.save();
    ctx.beginPath();
    ctx.rect(layout.gutter, axisHeight, layout.width - layout.gutter, layout.height - axisHeight);
    ctx.clip();
    const { list, left } = arrows(layout, hovered);
    frame.arrows = list;
    frame.arrowsLeft = left;
    this.arrows(ctx, list);
    this.findings(ctx);
    this.outline(ctx, hovered, false);
    this.outline(ctx, state.selected, true);
    if (state.hoverTime !== null) {
      ctx.fillStyle = this.colours.muted;
      ctx.globalAlpha = 0.6;
      ctx.fillRect(Math.round(layout.x(state.hoverTime)), axisHeight, 1, layout.height);
      ctx.globalAlpha = 1;
    }
    ctx.restore();
    for (const pinned of [false, true]) {
      ctx.save();
      zone(ctx, layout, pinned);
      names(ctx, layout, pinned);
      ctx.restore();
    }
    if (layout.body > axisHeight) {
      ctx.fillStyle = this.colours.muted; // below it rows scroll
      ctx.fillRect(0, layout.body - 1, layout.width, 1);
    }
    axis(ctx, layout);
    return frame;
  }

  /** zone draws the bars of the rows that are pinned, or of those that scroll. */
  private zone(ctx: CanvasRenderingContext2D, pinned: boolean, frame: Frame | null): void {
    const { layout } = this;
    const { rows } = layout.state.model;
    ctx.save();
    zone(ctx, layout, pinned);
    grid(ctx, layout, pinned);
    zone(ctx, layout, pinned, layout.gutter);
    for (const folded of [false, true]) {
      for (const list of this.rects) list.length = 0;
      for (const list of [...this.waits, ...this.held]) list.length = 0;
      this.outlines.length = this.labels.length = 0;
      for (let r = 0; r < rows.length; r++) {
        if (layout.pinned(r) !== pinned || layout.folded(r) !== folded || (!frame && !layout.seen(r))) continue;
        const bars: Seen[] | null = frame ? [] : null;
        if (layout.heights[r] > 0) rows[r].lanes.forEach((lane, l) => this.lane(rows[r], lane, layout.laneTop(r, l), bars));
        if (bars) frame!.rows.push({ row: rows[r], bars, top: layout.top(r), height: layout.heights[r] });
      }
      if (folded) this.labels.length = 0;
      this.bars(ctx, folded ? foldedBar : layout.barHeight);
    }
    ctx.restore();
  }

  // Bars

  private lane(row: Row, lane: Lane, y: number, seen: Seen[] | null): void {
    const { layout } = this;
    const { state } = layout;
    const { model, matches, from, to } = state;
    const { tasks, calls } = model;
    const ofTask = row.of === "task";
    const ofCall = row.of === "call";
    const { scale, gutter, width: right } = layout;
    const pieces = this.merger.pieces(row, lane, matches, from, to, scale);
    const exact = gutter - from * scale;
    const origin = Math.round(exact); // columns are whole pixels
    for (let k = firstAt(pieces, gutter - exact); k < pieces.x.length; k++) {
      const i = pieces.index[k];
      const w = pieces.width[k];
      const style = pieces.style[k];
      const dim = !pieces.hit[k];
      const x = pieces.x[k] + (pieces.count[k] > 0 ? origin : exact);
      if (x > right) break;
      if (x + w < gutter) continue;
      seen?.push({ index: i, count: Math.max(1, pieces.count[k]), x, width: w, category: style === blocked ? Category.Call : style, matches: !dim });
      if (pieces.count[k] > 0) {
        this.rect(style, pieces.level[k], dim, x, y, 1);
        if (pieces.failed[k]) this.outlines.push({ x, y, w: 1, failed: true, dim });
        if (pieces.count[k] === 1 && !dim && (row.of === "range" || (ofTask && tasks.kind[i] === Kind.Mark))) {
          const next = k + 1 < pieces.x.length ? pieces.x[k + 1] + (pieces.count[k + 1] > 0 ? origin : exact) : right;
          const room = Math.min(next, right) - x - 10;
          if (room > 20) this.labels.push({ x: x + 5, y, w: room, text: this.label(row, i), category: -1 });
        }
        continue;
      }
      const left = Math.max(x, gutter - 4);
      const width = Math.min(x + w, right + 4) - left;
      const wait = ofTask && waits(tasks.kind[i]);
      if (wait) this.waits[dim ? 1 : 0].push(left, y, width);
      else this.rect(style, 3, dim, left, y, width > 3 ? width - 0.75 : width); // a hair between neighbours, as long as there is room
      if (ofCall && calls.blocked[i] > 0) {
        const since = Math.max(left, x + w - calls.blocked[i] * scale);
        if (left + width > since) this.held[dim ? 1 : 0].push(since, y, left + width - since);
      }
      if (pieces.failed[k] || (ofTask && this.marked.has(i))) this.outlines.push({ x: left, y, w: width, failed: pieces.failed[k], dim });
      const visible = Math.min(x + w, right) - Math.max(x, gutter);
      if (visible > (ofCall ? 50 : 30) && !dim) {
        this.labels.push({ x: Math.max(x, gutter) + 4, y, w: visible - 8, text: this.label(row, i), category: wait ? -1 : style });
      }
    }
  }

  private label(row: Row, i: number): string {
    const { model } = this.layout.state;
    if (row.of === "range") return model.ranges.text[i];
    if (row.of === "task" && model.textOfTask.has(i)) return model.textOfTask.get(i)!;
    if (row.of !== "task") return (model.data.functions[model.calls.function[i]] ?? "").replace(/^acl(rt)?/, "");
    const { tasks, data } = { tasks: model.tasks, data: model.data };
    const kind = data.strings.kinds[tasks.kind[i]] ?? "";
    if (tasks.category[i] === Category.Model) return runName(model, i);
    if (tasks.category[i] > Category.Both) return tasks.kind[i] === Kind.Fill ? `${kind} ${format.bytes(tasks.bytes[i])}` : kind;
    const parts = Math.max(tasks.segments[i], tasks.times[i]);
    const batch = parts > 1 ? ` × ${format.count(parts)}` : "";
    return `${shortNames[tasks.category[i]]} ${format.bytes(tasks.bytes[i])}${batch}`;
  }

  /** rect remembers a rectangle; one that continues the last one of its style is joined with it. */
  private rect(category: number, level: number, dim: boolean, x: number, y: number, w: number): void {
    const list = this.rects[(category * levels + level) * 2 + (dim ? 1 : 0)];
    const n = list.length;
    if (w === 1 && n > 0 && list[n - 2] === y && list[n - 3] + list[n - 1] === x) list[n - 1] += w;
    else list.push(x, y, w);
  }

  private fill(ctx: CanvasRenderingContext2D, list: number[], y: number, h: number): void {
    for (let i = 0; i < list.length; i += 3) ctx.fillRect(list[i], list[i + 1] + y, list[i + 2], h);
  }

  private bars(ctx: CanvasRenderingContext2D, h: number): void {
    const c = this.colours;
    for (const dim of [1, 0]) {
      ctx.globalAlpha = 1;
      for (let category = 0; category < styles; category++) {
        const colour = category === blocked ? c.blocked : c.category[category];
        for (let level = 0; level < levels; level++) {
          ctx.fillStyle = mix(colour, c.card, alphas[level] * (dim ? 0.16 : 1)); // opaque, which is drawn faster
          this.fill(ctx, this.rects[(category * levels + level) * 2 + dim], 0, h);
        }
      }
      // A wait holds its stream and moves nothing: a thin hatched line.
      ctx.globalAlpha = dim ? 0.16 : 1;
      ctx.fillStyle = this.hatched(ctx);
      this.fill(ctx, this.waits[dim], h * 0.3, h * 0.4);
      ctx.fillStyle = c.blocked;
      this.fill(ctx, this.held[dim], h - 4, 4);
    }
    ctx.globalAlpha = 1;
    ctx.lineWidth = 1.5;
    ctx.strokeStyle = c.bad;
    for (const o of this.outlines) {
      ctx.globalAlpha = o.dim ? 0.25 : 1;
      ctx.strokeRect(o.x + 0.75, o.y + 0.75, Math.max(o.w - 1.5, 1), h - 1.5);
      if (!o.failed || o.w < 6) continue;
      ctx.beginPath(); // a cross at the end: red alone is not for everybody
      const [x, y] = [o.x + o.w - 5, o.y + h / 2];
      ctx.moveTo(x - 3, y - 3);
      ctx.lineTo(x + 3, y + 3);
      ctx.moveTo(x + 3, y - 3);
      ctx.lineTo(x - 3, y + 3);
      ctx.stroke();
    }
    ctx.globalAlpha = 1;
    ctx.font = barFont;
    ctx.textBaseline = "middle";
    ctx.textAlign = "left";
    for (const l of this.labels) {
      const text = cut(l.text, l.w, 6.1);
      if (text === "") continue;
      ctx.fillStyle = l.category < 0 ? c.text : ink(c.category[l.category]);
      if (l.category < 0) {
        const width = ctx.measureText(text).width; // on the background, so that the hatching does not cross it
        ctx.fillStyle = c.card;
        ctx.fillRect(l.x - 2, l.y, width + 4, h);
        ctx.fillStyle = c.muted;
      }
      ctx.fillText(text, l.x, l.y + h / 2 + (l.category === Category.Call ? -1 : 0.5)); // above the edge that shows waiting
    }
  }

  private hatched(ctx: CanvasRenderingContext2D): CanvasPattern | string {
    if (this.hatch) return this.hatch;
    const tile = document.createElement("canvas");
    tile.width = tile.height = 12;
    const t = tile.getContext("2d")!;
    t.scale(2, 2);
    t.strokeStyle = this.colours.category[Category.Event];
    t.lineWidth = 1.6;
    t.beginPath();
    for (const d of [-6, 0, 6]) {
      t.moveTo(d - 1, 7);
      t.lineTo(d + 7, -1);
    }
    t.stroke();
    this.hatch = ctx.createPattern(tile, "repeat");
    this.hatch?.setTransform(new DOMMatrix().scale(0.5));
    return this.hatch ?? this.colours.category[Category.Event];
  }

  private outline(ctx: CanvasRenderingContext2D, thing: Thing | null, selected: boolean): void {
    if (!thing || thing.of === "finding") return;
    const { layout } = this;
    const row = layout.rowOf(thing);
    if (row === NONE || !layout.seen(row)) return;
    const bar = layout.bar(row);
    const [from, to] = layout.state.span(thing);
    const y = layout.laneTop(row, layout.laneOf(thing));
    const x = Math.max(layout.x(from), layout.gutter - 8);
    const w = Math.max(Math.min(layout.x(to), layout.width + 8) - x, 2);
    ctx.strokeStyle = this.colours.text;
    if (selected && thing.of === "task") {
      // The time it stood in the queue.
      const submit = layout.x(layout.state.model.tasks.submit[thing.index]);
      ctx.setLineDash([2, 2]);
      ctx.lineWidth = 1;
      ctx.beginPath();
      ctx.moveTo(submit, y + bar + 1.5);
      ctx.lineTo(x, y + bar + 1.5);
      ctx.stroke();
      ctx.setLineDash([]);
    }
    ctx.lineWidth = selected ? 2 : 1;
    const d = selected ? 1 : 0.5;
    ctx.strokeRect(x - d, y - d, w + 2 * d, bar + 2 * d);
  }

  // Arrows and findings

  private arrows(ctx: CanvasRenderingContext2D, list: Arrow[]): void {
    const c = this.colours;
    for (const arrow of list) {
      const p = ends(this.layout, arrow);
      if (!p) continue;
      const [x0, y0, x1, y1] = p;
      const event = arrow.kind !== "submit";
      ctx.strokeStyle = ctx.fillStyle = arrow.kind === "wait" ? c.blocked : event ? c.accent : c.muted;
      ctx.globalAlpha = arrow.strong ? 1 : event ? 0.75 : 0.45;
      ctx.lineWidth = arrow.strong ? 1.75 : event ? 1.4 : 1;
      const bend = Math.max(12, Math.abs(y1 - y0) * 0.45) * Math.sign(y1 - y0 || 1);
      ctx.beginPath();
      ctx.moveTo(x0, y0);
      ctx.bezierCurveTo(x0, y0 + bend, x1, y1 - bend, x1, y1);
      ctx.stroke();
      const s = Math.sign(y1 - y0 || 1);
      ctx.beginPath();
      ctx.moveTo(x1, y1);
      ctx.lineTo(x1 - 3.2, y1 - 5.5 * s);
      ctx.lineTo(x1 + 3.2, y1 - 5.5 * s);
      ctx.fill();
    }
    ctx.globalAlpha = 1;
  }

  private findings(ctx: CanvasRenderingContext2D): void {
    const { layout } = this;
    const { data, rows } = layout.state.model;
    const r = rows.findIndex((row) => row.of === "finding");
    if (r < 0) return;
    const selected = layout.state.selected;
    const y = layout.laneTop(r, 0);
    data.findings.forEach((f, i) => {
      const x = Math.round(layout.x(f.time)) + 0.5;
      const chosen = selected?.of === "finding" && selected.index === i;
      ctx.fillStyle = ctx.strokeStyle = f.severity === "warning" ? this.colours.blocked : this.colours.bad;
      ctx.globalAlpha = chosen ? 0.9 : 0.35;
      ctx.lineWidth = chosen ? 2 : 1;
      ctx.beginPath();
      ctx.moveTo(x, y + 14);
      ctx.lineTo(x, layout.height);
      ctx.stroke();
      ctx.globalAlpha = 1;
      ctx.beginPath();
      ctx.moveTo(x, y + 16);
      ctx.lineTo(x - 6.5, y + 4);
      ctx.lineTo(x + 6.5, y + 4);
      ctx.closePath();
      ctx.fill();
      if (chosen) {
        ctx.strokeStyle = this.colours.text;
        ctx.stroke();
      }
    });
  }
}

const mixed = new Map<string, string>();

/** mix is a colour as it looks on another one, with so much of it. */
function mix(colour: string, on: string, share: number): string {
  if (share === 1) return colour;
  const key = colour + on + share;
  let found = mixed.get(key);
  if (found === undefined) {
    const part = (at: number) => Math.round(parseInt(colour.slice(at, at + 2), 16) * share + parseInt(on.slice(at, at + 2), 16) * (1 - share));
    mixed.set(key, (found = `rgb(${part(1)} ${part(3)} ${part(5)})`));
  }
  return found;
}

const inks = new Map<string, string>();

/** ink is black or white, whichever is readable on colour. */
function ink(colour: string): string {
  let found = inks.get(colour);
  if (found === undefined) {
    const n = parseInt(colour.slice(1), 16);
    const [r, g, b] = [n >> 16, (n >> 8) & 255, n & 255].map((v) => (v / 255) ** 2.2);
    found = 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.2 ? "#10151c" : "#ffffff";
    inks.set(colour, found);
  }
  return found;
}
