// The bar of a run of a model has strips at its lower edge: what ran inside, and when.

import { partsOf } from "../inside.ts";
import { Category, categoryOf, type Model } from "../model.ts";
import type { Colours } from "../theme.ts";
import type { Layout } from "./layout.ts";

/** narrowest is from how many pixels on a bar has strips. */
export const narrowest = 24;

const mostTracks = 3;

interface Strip {
  start: number;
  end: number;
  category: Category;
  track: number;
}

/** Drawn is a strip as it was drawn. */
export interface Drawn {
  category: Category;
  track: number;
  x: number;
  width: number;
}

const known = new WeakMap<Model, Map<number, Strip[]>>();

/** stripsOf is the parts of a run that do not share all of its time, with what overlaps beneath each other. */
export function stripsOf(m: Model, task: number): Strip[] {
  let of = known.get(m);
  if (!of) known.set(m, (of = new Map()));
  let list = of.get(task);
  if (list) return list;
  const { parts, whole } = partsOf(m, task);
  const ends: number[] = [];
  list = whole ? [] : parts.map((p) => {
    const g = m.data.models[p.model];
    const kinds = new Set(p.nodes.map((i) => categoryOf(g.kind[i], g.direction[i])));
    let track = ends.findIndex((e) => e <= p.start);
    if (track < 0) track = ends.length < mostTracks ? ends.length : mostTracks - 1;
    ends[track] = Math.max(ends[track] ?? 0, p.end);
    return { start: p.start, end: p.end, category: kinds.size === 1 ? [...kinds][0] : Category.Both, track };
  });
  of.set(task, list);
  return list;
}

/** paintStrips draws them on the bar at y, which is h high. */
export function paintStrips(ctx: CanvasRenderingContext2D, layout: Layout, colours: Colours, task: number, y: number, h: number): Drawn[] {
  const list = stripsOf(layout.state.model, task);
  const tracks = list.reduce((n, s) => Math.max(n, s.track + 1), 1);
  const high = Math.min(5, h / 2) / tracks;
  const drawn: Drawn[] = [];
  for (const s of list) {
    const [x0, x1] = [Math.max(layout.x(s.start), layout.gutter), Math.min(layout.x(s.end), layout.width)];
    if (x1 < x0) continue;
    ctx.fillStyle = colours.category[s.category];
    ctx.fillRect(x0, y + h - (tracks - s.track) * high, Math.max(x1 - x0, 1), high);
    drawn.push({ category: s.category, track: s.track, x: x0, width: x1 - x0 });
  }
  return drawn;
}
