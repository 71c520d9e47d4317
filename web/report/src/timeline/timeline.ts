// The timeline: a canvas that is panned, zoomed, pointed at and walked with the keyboard.

import { NONE } from "../data.ts";
import { describe } from "../describe.ts";
import { h, say } from "../dom.ts";
import * as format from "../format.ts";
import { firstVisible } from "../model.ts";
import type { State, Thing } from "../state.ts";
import { categoryKeys } from "../model.ts";
import { labels } from "./around.ts";
import { Layout } from "./layout.ts";
import { Painter, type Frame } from "./paint.ts";

export class Timeline {
  readonly element: HTMLElement;
  readonly layout: Layout;
  private readonly canvas = h("canvas", { "aria-hidden": "true" });
  private readonly spacer = h("div", { className: "spacer" }, this.canvas);
  private readonly scroller: HTMLElement;
  private readonly tip = h("div", { className: "tip", hidden: true });
  readonly hint = h("span", { className: "hint" }); // beside the button for arrows
  private readonly band = h("div", { className: "band", hidden: true });
  private readonly painter: Painter;
  private readonly ctx: CanvasRenderingContext2D;
  private hovered: { thing: Thing; more: number; row: number } | null = null;
  private pointer: { x: number; y: number } | null = null; // where the mouse is, over the canvas
  private readonly pointers = new Map<number, { x: number; y: number }>();
  private drag: { x: number; y: number; from: number; to: number; moved: boolean; what: "pan" | "range" | "gutter"; pinch: number } | null = null;
  private waiting = false;
  frames = 0; // drawn, for measuring

  constructor(private readonly state: State) {
    this.layout = new Layout(state);
    this.painter = new Painter(this.layout);
    this.ctx = this.canvas.getContext("2d")!;
    this.scroller = h("div", {
      className: "scroller", tabIndex: 0, role: "application", "aria-roledescription": "timeline",
      "aria-label": `Timeline of ${format.plural(state.model.calls.count, "call")} and ${format.plural(state.model.tasks.count, "task")}`,
      "aria-describedby": "timeline-keys",
    }, this.spacer);
    this.element = h("div", { className: "timeline" }, this.scroller, this.band, this.tip,
      h("p", { className: "unseen", id: "timeline-keys" },
        "Left and right or A and D pan, plus and minus or W and S zoom, 0 shows the work, 9 the whole run. Period and comma go to the next and the previous bar of a row, up and down to another row. Enter pins the details, F fills the screen with the bar, C collapses its row, Shift and C the group, K keeps the row at the top."));
    this.listen();
    new ResizeObserver(() => this.resize()).observe(this.scroller);
    state.listen((change) => {
      if (change === "theme") {
        this.painter.recolour();
        this.paint(); // at once: a page that is printed gets no other frame
        return;
      }
      if (change === "rows") this.resize();
      if (change === "selection") this.reveal();
      if (change === "view" && this.pointer && !this.drag) this.hover(this.pointer.x, this.pointer.y); // something else is there now
      this.draw();
    });
  }

  private resize(): void {
    const width = this.scroller.clientWidth;
    if (width === 0) return;
    this.layout.measure(width, 0);
    const height = Math.min(this.layout.total, this.most());
    this.scroller.style.height = height + "px";
    this.spacer.style.height = this.layout.total + "px";
    this.layout.measure(this.scroller.clientWidth, height);
    const ratio = devicePixelRatio || 1;
    this.canvas.width = Math.round(this.layout.width * ratio);
    this.canvas.height = Math.round(height * ratio);
    this.canvas.style.width = this.layout.width + "px";
    this.canvas.style.height = height + "px";
    this.ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.paint();
  }

  private most(): number {
    return matchMedia("print").matches ? 2000 : Math.max(260, innerHeight * 0.62);
  }

  /** draw paints at the next frame, once however often it is asked. */
  draw(): void {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      this.paint();
    });
  }

  private paint(): void {
    if (this.layout.width === 0) return;
    this.layout.scroll = this.scroller.scrollTop;
    const frame = this.painter.paint(this.ctx, this.hovered?.thing ?? null);
    this.frames++;
    this.hint.textContent = frame.arrowsLeft ? "zoom in or filter to see them" : "";
    this.placeBand();
  }

  /** placeBand puts the band over the marked range. */
  private placeBand(): void {
    const { range } = this.state;
    this.band.hidden = range === null;
    if (!range) return;
    const a = Math.max(this.layout.x(range[0]), this.layout.gutter);
    const b = Math.min(this.layout.x(range[1]), this.layout.width);
    if (b < a) this.band.hidden = true;
    Object.assign(this.band.style, { left: a + "px", width: b - a + "px" });
  }

  /** look reports what the timeline shows now. */
  look(): Frame {
    this.layout.scroll = this.scroller.scrollTop;
    return this.painter.paint(this.ctx, this.hovered?.thing ?? null, true);
  }

  axis() {
    return labels(this.ctx, this.layout);
  }

  focus(): void {
    this.scroller.focus();
  }

  /** reveal scrolls to the row of what is selected. */
  private reveal(): void {
    const thing = this.state.selected;
    const row = thing ? this.layout.rowOf(thing) : NONE;
    if (row === NONE) return;
    if (this.layout.heights[row] === 0) this.state.flip("folded", this.state.model.rows[row].group);
    if (this.layout.pinned(row)) return;
    const top = this.layout.tops[row];
    const bottom = top + this.layout.heights[row];
    if (top - this.layout.body < this.scroller.scrollTop) this.scroller.scrollTop = top - this.layout.body;
    else if (bottom > this.scroller.scrollTop + this.layout.height) this.scroller.scrollTop = bottom - this.layout.height + 4;
    if (this.layout.gutter > 0) return;
    // On a phone the details come up over the lower half.
    const y = this.canvas.getBoundingClientRect().top + bottom - this.scroller.scrollTop;
    if (y > innerHeight * 0.5) scrollBy({ top: y - innerHeight * 0.4 });
  }

  // Pointer

  private listen(): void {
    const c = this.canvas;
    c.addEventListener("pointerdown", (e) => this.down(e));
    c.addEventListener("pointermove", (e) => this.move(e));
    c.addEventListener("pointerup", (e) => this.up(e));
    c.addEventListener("pointercancel", (e) => this.up(e, true));
    c.addEventListener("pointerleave", () => {
      this.pointer = null;
      this.hover(null, null);
    });
    c.addEventListener("dblclick", (e) => {
      const { x, y } = this.point(e);
      if (this.onBorder(x)) this.widen(null);
      else if (this.layout.control(x, y)) return;
      else this.state.zoom(0.4, this.layout.time(x));
    });
    this.scroller.addEventListener("wheel", (e) => this.wheel(e), { passive: false });
    this.scroller.addEventListener("scroll", () => this.draw());
    this.scroller.addEventListener("keydown", (e) => this.key(e, true));
    addEventListener("resize", () => this.resize());
    addEventListener("beforeprint", () => this.resize());
    addEventListener("afterprint", () => this.resize());
  }

  private point(e: { clientX: number; clientY: number }): { x: number; y: number } {
    const box = this.canvas.getBoundingClientRect();
    return { x: e.clientX - box.left, y: e.clientY - box.top };
  }

  private down(e: PointerEvent): void {
    if (e.button !== 0) return;
    this.canvas.setPointerCapture(e.pointerId);
    this.scroller.focus({ preventScroll: true });
    this.pointers.set(e.pointerId, this.point(e));
    this.begin(this.onBorder(this.point(e).x) ? "gutter" : e.shiftKey ? "range" : "pan");
  }

  /** onBorder reports whether x is on the border of the names, which can be moved. */
  private onBorder(x: number): boolean {
    return this.layout.gutter > 0 && Math.abs(x - this.layout.gutter) <= 4;
  }

  /** widen gives the names a width, or as much as they need. */
  private widen(width: number | null): void {
    this.layout.chosen = width;
    this.resize();
    this.state.notify("layout");
  }

  /** begin starts a drag from where the pointers are now. */
  private begin(what: "pan" | "range" | "gutter"): void {
    const points = [...this.pointers.values()];
    if (points.length === 0) {
      this.drag = null;
      return;
    }
    const moved = this.drag?.moved ?? false;
    const { x, y } = middle(points);
    this.drag = { x, y, from: this.state.from, to: this.state.to, moved, what, pinch: distance(points) };
  }

  private move(e: PointerEvent): void {
    const p = this.point(e);
    if (e.pointerType !== "touch") this.pointer = p;
    if (!this.pointers.has(e.pointerId) || !this.drag) {
      if (e.pointerType !== "touch") this.hover(p.x, p.y);
      this.canvas.classList.toggle("border", this.onBorder(p.x));
      return;
    }
    this.pointers.set(e.pointerId, p);
    const points = [...this.pointers.values()];
    const { x } = middle(points);
    const d = this.drag;
    if (!d.moved && Math.abs(x - d.x) < 4 && points.length === 1) return;
    d.moved = true;
    this.hover(null, null);
    if (d.what === "gutter") return this.widen(x);
    if (d.what === "range") return this.state.mark([this.layout.time(Math.min(d.x, x)), this.layout.time(Math.max(d.x, x))]);
    // The time that was under the fingers stays under them.
    const room = this.layout.width - this.layout.gutter;
    const span = (d.to - d.from) * (points.length > 1 ? d.pinch / Math.max(distance(points), 10) : 1);
    const held = d.from + ((d.x - this.layout.gutter) / room) * (d.to - d.from);
    const from = held - ((x - this.layout.gutter) / room) * span;
    this.canvas.classList.add("held");
    this.state.look(from, from + span);
  }

  private up(e: PointerEvent, cancelled = false): void {
    if (!this.pointers.delete(e.pointerId)) return;
    const d = this.drag;
    const p = this.point(e);
    this.canvas.classList.remove("held");
    if (this.pointers.size > 0) {
      this.begin("pan");
      return;
    }
    this.drag = null;
    if (!d || cancelled || d.moved || d.what === "gutter") return;
    const control = this.layout.control(p.x, p.y);
    if (control) {
      this.flip(control.what, control.row);
      return this.hover(p.x, p.y);
    }
    if (this.state.range) this.state.mark(null);
    const hit = this.layout.at(p.x, p.y, e.pointerType === "touch" ? 14 : 4);
    this.state.select(hit?.thing ?? null);
  }

  /** act is what flipping does, in words. */
  private act(what: "pinned" | "folded", row: number): string {
    const on = what === "pinned" ? this.layout.pinned(row) : this.layout.folded(row);
    if (what === "pinned") return on ? "Let the row scroll" : "Keep the row at the top";
    const of = this.state.model.rows[row].kind === "group" ? "group" : "row";
    return on ? `Expand the ${of}` : `Collapse the ${of}`;
  }

  /** flip pins or collapses a row, or undoes it. */
  private flip(what: "pinned" | "folded", row: number): void {
    const { key, name } = this.state.model.rows[row];
    const on = this.state.flip(what, key);
    say(`${name} ${what === "pinned" ? (on ? "stays at the top" : "scrolls") : on ? "collapsed" : "expanded"}`);
  }

  /** flipCurrent does so with the row of what is selected, or the one under the pointer; group: with the group that it is in. */
  private flipCurrent(what: "pinned" | "folded", group = false): void {
    const { rows } = this.state.model;
    let row = this.state.selected ? this.layout.rowOf(this.state.selected) : this.pointer ? this.layout.rowAt(this.pointer.y) : NONE;
    if (group && row !== NONE && rows[row].group !== "") row = rows.findIndex((r) => r.key === rows[row].group);
    if (row !== NONE && (what === "folded" || rows[row].kind !== "group")) this.flip(what, row);
  }

  private wheel(e: WheelEvent): void {
    const along = Math.abs(e.deltaX) > Math.abs(e.deltaY) ? e.deltaX : e.shiftKey ? e.deltaY : 0;
    if (e.ctrlKey || e.metaKey) {
      e.preventDefault();
      const step = e.deltaMode === 1 ? 0.05 : 0.0022;
      this.state.zoom(Math.exp(e.deltaY * step), this.layout.time(this.point(e).x));
    } else if (along !== 0) {
      e.preventDefault();
      this.state.pan(along / (this.layout.width - this.layout.gutter));
    }
  }

  private hover(x: number | null, y: number | null): void {
    const before = this.hovered?.thing;
    this.hovered = x === null || y === null ? null : this.layout.at(x, y);
    this.state.hoverTime = x === null || x < this.layout.gutter ? null : this.layout.time(x);
    const control = x === null || y === null || this.onBorder(x) ? null : this.layout.control(x, y);
    this.layout.pointed = control?.row ?? NONE;
    this.canvas.title = control ? this.act(control.what, control.row) + (control.what === "pinned" ? " (K)" : " (C)") : "";
    this.canvas.classList.toggle("over", this.hovered !== null || control !== null);
    this.tip.hidden = this.hovered === null;
    if (this.hovered && x !== null && y !== null) {
      const thing = this.hovered.thing;
      if (before?.index !== thing.index || before.of !== thing.of || this.tip.childElementCount === 0) this.fillTip();
      const width = this.tip.offsetWidth;
      const left = x + 14 + width > this.layout.width ? Math.max(0, x - width - 14) : x + 14;
      Object.assign(this.tip.style, { left: left + "px", top: y + 16 + "px" });
    }
    this.state.notify("hover");
  }

  private fillTip(): void {
    const { thing, more } = this.hovered!;
    const d = describe(this.state.model, thing);
    this.tip.replaceChildren(h("div", {},
      h("strong", { className: d.key < 0 ? "" : "key " + categoryKeys[d.key] }, d.title),
      d.trouble && h("p", { className: "trouble" }, d.trouble),
      h("dl", {}, ...d.fields.slice(0, d.short).flatMap(([k, v]) => [h("dt", {}, k), h("dd", {}, v)])),
      more > 0 && h("p", { className: "quiet" }, `and ${format.count(more)} more here: zoom in`)));
  }

  // Keyboard

  /** zoom does so at the pointer, if it is over the bars. */
  private zoom(factor: number): void {
    const { pointer, layout } = this;
    this.state.zoom(factor, pointer && pointer.x >= layout.gutter ? layout.time(pointer.x) : undefined);
  }

  /** key does what a key is for. Those that move a page, or press what has the focus, are the timeline's only where it has it. */
  key(e: KeyboardEvent, focused: boolean): void {
    if (e.ctrlKey || e.metaKey || e.altKey) return;
    const { state } = this;
    const far = e.shiftKey ? 0.9 : 0.2;
    const anywhere: Record<string, () => void> = {
      "+": () => this.zoom(0.6),
      "=": () => this.zoom(0.6),
      "-": () => this.zoom(1 / 0.6),
      a: () => state.pan(-far),
      d: () => state.pan(far),
      w: () => this.zoom(0.6),
      s: () => this.zoom(1 / 0.6),
      "0": () => state.fit(),
      "9": () => state.all(),
      ".": () => this.step(1),
      ",": () => this.step(-1),
      f: () => (state.range ? state.look(...state.range) : state.selected && state.frame(...state.span(state.selected))),
      c: () => this.flipCurrent("folded", e.shiftKey),
      k: () => this.flipCurrent("pinned"),
      Escape: () => {
        state.mark(null);
        state.select(null);
      },
    };
    const here: Record<string, () => void> = {
      ArrowLeft: () => state.pan(-far),
      ArrowRight: () => state.pan(far),
      ArrowDown: () => this.climb(1),
      ArrowUp: () => this.climb(-1),
      Home: () => state.look(0, state.to - state.from),
      End: () => state.look(state.model.duration - (state.to - state.from), state.model.duration),
      Enter: () => state.selected && document.getElementById("tab-details")?.click(),
    };
    const act = (focused ? here[e.key] : undefined) ?? anywhere[e.key] ?? anywhere[e.key.toLowerCase()];
    if (!act) return;
    e.preventDefault();
    act();
  }

  /** step goes to the next bar of the row. */
  private step(by: 1 | -1): void {
    const { state, layout } = this;
    const { selected } = state;
    if (!selected || selected.of === "finding") return this.enter(selected ? layout.rowOf(selected) : NONE, by);
    const lane = state.model.rows[layout.rowOf(selected)]?.lanes[layout.laneOf(selected)];
    if (!lane) return;
    const next = lane.items[lane.items.indexOf(selected.index) + by];
    if (next !== undefined) this.walk({ of: selected.of, index: next });
    else say(by > 0 ? "last of the row" : "first of the row");
  }

  /** climb goes to the row below or above, to the bar nearest in time. */
  private climb(by: 1 | -1): void {
    const { selected } = this.state;
    this.enter(selected ? this.layout.rowOf(selected) : by > 0 ? -1 : this.state.model.rows.length, by);
  }

  private enter(row: number, by: 1 | -1): void {
    const { state } = this;
    const { rows, data } = state.model;
    const t = state.selected ? state.span(state.selected)[0] : state.from;
    for (let r = row + by; r >= 0 && r < rows.length; r += by) {
      if (rows[r].of === "finding") {
        const after = data.findings.findIndex((f) => f.time >= t);
        return this.walk({ of: "finding", index: after < 0 ? data.findings.length - 1 : after });
      }
      if ((rows[r].kind !== "thread" && rows[r].kind !== "stream" && rows[r].kind !== "ranges") || rows[r].lanes.length === 0 || this.layout.heights[r] === 0) continue;
      const lane = rows[r].lanes[0];
      const index = lane.items[Math.min(firstVisible(lane, t), lane.items.length - 1)];
      return this.walk({ of: rows[r].of as "task" | "call" | "range", index });
    }
  }

  private walk(thing: Thing): void {
    this.state.go(thing);
    const d = describe(this.state.model, thing);
    say([d.title, d.trouble, ...d.fields.slice(0, d.short).map(([k, v]) => `${k} ${v}`)].filter(Boolean).join(", "));
  }
}

function middle(points: { x: number; y: number }[]): { x: number; y: number } {
  return {
    x: points.reduce((sum, p) => sum + p.x, 0) / points.length,
    y: points.reduce((sum, p) => sum + p.y, 0) / points.length,
  };
}

function distance(points: { x: number; y: number }[]): number {
  return points.length < 2 ? 1 : Math.max(10, Math.abs(points[0].x - points[1].x));
}
