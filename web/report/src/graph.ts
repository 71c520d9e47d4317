// A model as a drawing: a row for each stream, tasks from left to right, arrows for what waits for what.

import { boxes, type Box } from "./boxes.ts";
import { taskWords } from "./bars.ts";
import { h } from "./dom.ts";
import * as format from "./format.ts";
import { categoryKeys, categoryOf, streamName, type Model } from "./model.ts";

const ns = "http://www.w3.org/2000/svg";

function shape(tag: string, attributes: Record<string, string | number>, ...children: (Node | string)[]): SVGElement {
  const e = document.createElementNS(ns, tag);
  for (const [key, value] of Object.entries(attributes)) e.setAttribute(key, String(value));
  e.append(...children);
  return e;
}

const wide = 104, high = 38, gap = 26, row = 58, head = 16;
const most = 600; // boxes; more are slow, and nobody looks at them

/** graph draws a model. */
export function graph(m: Model, index: number): HTMLElement {
  const g = m.data.models[index];
  const all = boxes(g);
  const list = all.slice(0, most);
  const streams = [...new Set(list.map((b) => b.stream))];
  const columns = list.reduce((n, b) => Math.max(n, b.layer + 1), 1);
  const x = (b: Box) => b.layer * (wide + gap) + 1;
  const y = (b: Box) => streams.indexOf(b.stream) * row + head;
  const [width, height] = [columns * (wide + gap) - gap + 2, streams.length * row + 2];
  const svg = shape("svg", {
    class: "graph", viewBox: `0 0 ${width} ${height}`, style: `width:${width}px;height:${height}px`, role: "img",
    "aria-label": `Graph of model ${g.id}: ${format.plural(g.tasks, "task")} on ${format.plural(streams.length, "stream")}`,
  });
  streams.forEach((s, i) => svg.append(shape("text", { class: "stream", x: 1, y: i * row + head - 4 }, streamName(m, s))));
  const last = new Map<number, Box>();
  for (const b of list) {
    const old = last.get(b.stream);
    if (old) svg.append(shape("path", { class: "order", d: `M${x(old) + wide} ${y(old) + high / 2}H${x(b)}` }));
    for (const a of b.after) {
      const from = list[a];
      const [x0, y0, x1, y1] = [x(from) + wide, y(from) + high / 2, x(b), y(b) + high / 2];
      svg.append(shape("path", { class: "event", d: `M${x0} ${y0}C${x0 + gap} ${y0} ${x1 - gap} ${y1} ${x1} ${y1}` }));
    }
    last.set(b.stream, b);
  }
  for (const b of list) {
    const [title, more] = words(m, b);
    svg.append(shape("g", { class: "box " + categoryKeys[categoryOf(b.kind, b.direction)], transform: `translate(${x(b)} ${y(b)})` },
      shape("rect", { width: wide, height: high, rx: 4 }),
      shape("text", { x: 8, y: more ? 16 : 23 }, short(title)),
      more ? shape("text", { class: "more", x: 8, y: 30 }, more) : "",
      shape("title", {}, more ? `${title}, ${more}` : title)));
  }
  const missing = g.kind.length < g.tasks ? `The first ${format.count(g.kind.length)} of ${format.count(g.tasks)} tasks are recorded.` : "";
  const cut = list.length < all.length ? `The first ${format.count(list.length)} of ${format.count(all.length)} boxes are shown.` : "";
  return h("figure", { className: "graph" },
    h("div", { className: "scroll", tabIndex: 0, role: "group", "aria-label": `Graph of model ${g.id}` }, svg),
    h("figcaption", {}, ["The order of the tasks, not their times.", missing, cut].filter(Boolean).join(" ")));
}

/** words are what a box does, and how much. */
function words(m: Model, b: Box): [string, string] {
  return [taskWords(m, b), b.bytes > 0 ? format.bytes(b.bytes) : ""];
}

/** short cuts a text to the width of a box. */
const short = (text: string) => (text.length > 15 ? text.slice(0, 14) + "…" : text);
