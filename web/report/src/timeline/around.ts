// What is around the bars: stripes and lines behind them, the axis, the names of rows.

import { ticks } from "d3-array";
import * as format from "../format.ts";
import { colours } from "../theme.ts";
import { axisHeight, type Layout } from "./layout.ts";

const family = `system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "Liberation Sans", Arial, sans-serif`;
export const barFont = `11px ${family}`;
const axisFont = `11px ${family}`;
const smallFont = `10.5px ${family}`;
const nameFont = `12px ${family}`;
const groupFont = `600 11.5px ${family}`;

/** cut shortens text to about width pixels; nothing is left of what would not be readable. */
export function cut(text: string, width: number, perLetter: number): string {
  const letters = Math.floor(width / perLetter);
  if (text.length <= letters) return text;
  return letters < 3 ? "" : text.slice(0, letters - 1) + "…";
}

/** zone keeps what follows to the rows that are pinned, or to those that scroll, from x on. */
export function zone(ctx: CanvasRenderingContext2D, layout: Layout, pinned: boolean, x = 0): void {
  ctx.beginPath();
  if (pinned) ctx.rect(x, axisHeight, layout.width - x, layout.body - axisHeight);
  else ctx.rect(x, layout.body, layout.width - x, layout.height - layout.body);
  ctx.clip();
}

/** grid is what is behind the bars of one zone. */
export function grid(ctx: CanvasRenderingContext2D, layout: Layout, pinned: boolean): void {
  const { rows } = layout.state.model;
  const c = colours();
  let odd = false;
  for (let r = 0; r < rows.length; r++) {
    if (layout.pinned(r) !== pinned || layout.heights[r] === 0) continue;
    odd = rows[r].kind === "group" ? false : !odd;
    if (odd) {
      ctx.fillStyle = c.stripe;
      ctx.fillRect(0, layout.top(r), layout.width, layout.heights[r]);
    }
  }
  ctx.fillStyle = c.line;
  for (const t of steps(layout)) ctx.fillRect(Math.round(layout.x(t)), axisHeight, 1, layout.height);
  // Outside of the run there is nothing.
  ctx.fillStyle = c.stripe;
  const [x0, x1] = [layout.x(0), layout.x(layout.state.model.duration)];
  if (x0 > layout.gutter) ctx.fillRect(layout.gutter, axisHeight, x0 - layout.gutter, layout.height);
  if (x1 < layout.width) ctx.fillRect(x1, axisHeight, layout.width - x1, layout.height);
}

/** steps are the times on the axis, as many as there is room for with what is written at them. */
function steps(layout: Layout): number[] {
  const { from, to } = layout.state;
  const room = layout.width - layout.gutter;
  for (let n = Math.max(2, Math.floor(room / 110)); ; n--) {
    const list = ticks(from, to, n).filter((t) => t >= 0);
    if (n <= 1 || list.length < 2) return list;
    const step = list[1] - list[0];
    if (format.moment(list[list.length - 1], step).length * 6.6 + 14 < (step / (to - from)) * room) return list;
  }
}

/** labels are the times written on the axis, and where. */
export function labels(ctx: CanvasRenderingContext2D, layout: Layout): { text: string; x: number; width: number }[] {
  ctx.font = axisFont;
  const list = steps(layout);
  const step = list.length > 1 ? list[1] - list[0] : layout.state.to - layout.state.from;
  let free = layout.gutter + 2;
  return list.flatMap((t) => {
    const at = layout.x(t);
    if (at < layout.gutter || at > layout.width) return [];
    const text = t === 0 ? "0" : format.moment(t, step);
    const { width } = ctx.measureText(text);
    const x = Math.min(Math.max(at - width / 2, layout.gutter + 2), layout.width - width - 2);
    if (x < free) return []; // one that had to give way at the edge
    free = x + width + 8;
    return [{ text, width, x }];
  });
}

/** axis is the line of times, above everything that scrolls. */
export function axis(ctx: CanvasRenderingContext2D, layout: Layout): void {
  const c = colours();
  ctx.fillStyle = c.card;
  ctx.fillRect(0, 0, layout.width, axisHeight);
  ctx.fillStyle = c.line;
  ctx.fillRect(0, axisHeight - 1, layout.width, 1);
  ctx.textBaseline = "middle";
  ctx.textAlign = "left";
  for (const t of steps(layout)) {
    const x = layout.x(t);
    if (x < layout.gutter || x > layout.width) continue;
    ctx.fillStyle = c.line;
    ctx.fillRect(Math.round(x), axisHeight - 6, 1, 6);
  }
  ctx.fillStyle = c.muted;
  for (const { text, x } of labels(ctx, layout)) ctx.fillText(text, x, 12);
  const now = layout.state.hoverTime;
  if (now === null) return;
  const text = format.moment(now, 2 / layout.scale);
  ctx.font = axisFont;
  const w = ctx.measureText(text).width + 10;
  const x = Math.min(Math.max(layout.x(now) - w / 2, layout.gutter), layout.width - w);
  ctx.fillStyle = c.text;
  ctx.beginPath();
  ctx.roundRect(x, 3, w, 18, 4);
  ctx.fill();
  ctx.fillStyle = c.card;
  ctx.fillText(text, x + 5, 12.5);
}

/** chevron points down where something is open, and to it where it is collapsed. */
function chevron(ctx: CanvasRenderingContext2D, x: number, y: number, folded: boolean): void {
  ctx.beginPath();
  if (folded) [[-2, -4], [3, 0], [-2, 4]].forEach(([dx, dy]) => ctx.lineTo(x + dx, y + dy));
  else [[-4, -2], [0, 3], [4, -2]].forEach(([dx, dy]) => ctx.lineTo(x + dx, y + dy));
  ctx.lineWidth = 1.5;
  ctx.stroke();
}

/** pin is a needle with a head: filled where the row is kept. */
function pin(ctx: CanvasRenderingContext2D, x: number, y: number, filled: boolean): void {
  ctx.beginPath();
  ctx.roundRect(x - 3, y - 5.5, 6, 5, 1.5);
  ctx.moveTo(x - 4.5, y - 0.5);
  ctx.lineTo(x + 4.5, y - 0.5);
  ctx.moveTo(x, y - 0.5);
  ctx.lineTo(x, y + 5.5);
  ctx.lineWidth = 1.2;
  if (filled) ctx.fill();
  ctx.stroke();
}

/** names are those of the rows of one zone: in the gutter, or above the bars where there is none. */
export function names(ctx: CanvasRenderingContext2D, layout: Layout, pinned: boolean): void {
  const { state } = layout;
  const { rows } = state.model;
  const c = colours();
  ctx.textBaseline = "middle";
  ctx.textAlign = "left";
  if (layout.gutter > 0) {
    ctx.fillStyle = c.line;
    ctx.fillRect(layout.gutter - 1, axisHeight, 1, layout.height);
  }
  for (let r = 0; r < rows.length; r++) {
    const row = rows[r];
    const y = layout.top(r);
    const height = layout.heights[r];
    if (layout.pinned(r) !== pinned || !layout.seen(r)) continue;
    const folded = layout.folded(r);
    if (row.kind === "group") {
      ctx.fillStyle = c.line;
      ctx.fillRect(0, y, layout.width, 1);
      ctx.font = groupFont;
      const w = ctx.measureText(row.name).width;
      ctx.font = axisFont;
      ctx.globalAlpha = 0.85; // arrows pass behind the words
      ctx.fillStyle = c.card;
      ctx.fillRect(4, y + 3, w + 32 + ctx.measureText(row.note).width, height - 4);
      ctx.globalAlpha = 1;
      ctx.strokeStyle = layout.pointed === r ? c.text : c.muted;
      chevron(ctx, 13, y + height / 2 + 2, folded);
      ctx.font = groupFont;
      ctx.fillStyle = c.text;
      ctx.fillText(row.name, 24, y + height / 2 + 2);
      ctx.font = axisFont;
      ctx.fillStyle = c.muted;
      ctx.fillText(row.note, 24 + w + 8, y + height / 2 + 2);
      continue;
    }
    const narrow = layout.gutter === 0;
    const middle = narrow ? y + 8 : y + height / 2;
    ctx.font = nameFont;
    ctx.fillStyle = c.text;
    const x = narrow ? 6 : 24;
    const kept = state.pinned.has(row.key);
    const end = (narrow ? layout.width : layout.gutter) - (kept || (layout.pointed === r && !narrow) ? 26 : 8);
    const name = cut(row.name, end - x, 6.3);
    ctx.fillText(name, x, middle);
    const w = ctx.measureText(name).width + 6;
    const room = end - x - w;
    ctx.font = smallFont;
    ctx.fillStyle = c.muted;
    ctx.fillText(cut(row.note, room, 5.6), x + w, middle);
    if (narrow) continue;
    ctx.strokeStyle = ctx.fillStyle = kept ? c.accent : c.muted;
    if (kept || layout.pointed === r) pin(ctx, layout.gutter - 14, middle, kept);
    ctx.strokeStyle = c.muted;
    if (folded || layout.pointed === r) chevron(ctx, 13, middle, folded);
  }
}
