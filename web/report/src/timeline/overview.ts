// The whole run in a strip: how busy copies and kernels kept the devices, and which part of it the timeline shows. Drag to look elsewhere.

import { h } from "../dom.ts";
import { NONE } from "../data.ts";
import { Category } from "../model.ts";
import type { State } from "../state.ts";
import { colours } from "../theme.ts";

const height = 34;

export class Overview {
  private readonly canvas = h("canvas", { "aria-hidden": "true" });
  private readonly frame = h("div", { className: "window" });
  private readonly idle = [h("div", { className: "idle" }), h("div", { className: "idle" })]; // before the work, and after it
  readonly element = h("div", { className: "overview", title: "The whole run; grey is without tasks. Drag to look at another part of it." }, ...this.idle, this.canvas, this.frame);

  constructor(private readonly state: State) {
    const [first, last] = state.model.work;
    this.idle[0].style.width = (100 * first) / state.model.duration + "%";
    this.idle[1].style.left = (100 * last) / state.model.duration + "%";
    this.idle[1].style.right = "0";
    state.listen((change) => {
      if (change === "view") this.place();
      if (change === "theme") this.paint();
    });
    new ResizeObserver(() => this.paint()).observe(this.element);
    let grip = NaN; // time under the pointer, from the start of the window
    const at = (e: PointerEvent) => {
      const box = this.element.getBoundingClientRect();
      return ((e.clientX - box.left) / box.width) * state.model.duration;
    };
    this.element.addEventListener("pointerdown", (e) => {
      this.element.setPointerCapture(e.pointerId);
      const t = at(e);
      const span = state.to - state.from;
      grip = t >= state.from && t <= state.to && span < state.model.duration ? t - state.from : span / 2;
      state.look(t - grip, t - grip + span);
    });
    this.element.addEventListener("pointermove", (e) => {
      if (isNaN(grip)) return;
      const span = state.to - state.from;
      state.look(at(e) - grip, at(e) - grip + span);
    });
    for (const end of ["pointerup", "pointercancel"]) this.element.addEventListener(end, () => (grip = NaN));
  }

  private place(): void {
    const { from, to, model } = this.state;
    const a = Math.max(0, from / model.duration);
    const b = Math.min(1, to / model.duration);
    this.frame.style.left = a * 100 + "%";
    this.frame.style.width = Math.max(0, b - a) * 100 + "%";
  }

  /** paint adds up, for each pixel column, how long copies of each direction and kernels ran in it. */
  private paint(): void {
    const width = this.element.clientWidth;
    if (width === 0) return;
    const ratio = devicePixelRatio || 1;
    this.canvas.width = width * ratio;
    this.canvas.height = height * ratio;
    const ctx = this.canvas.getContext("2d")!;
    ctx.scale(ratio, ratio);
    const { model } = this.state;
    const { tasks, duration } = model;
    const columns = Math.ceil(width / 2);
    const kinds = Category.Kernel + 1;
    const busy = Array.from({ length: kinds }, () => new Float64Array(columns));
    const per = duration / columns;
    for (let i = 0; i < tasks.all; i++) {
      const c = tasks.category[i];
      if ((c > Category.Both && c !== Category.Kernel) || tasks.start[i] === NONE) continue;
      const end = tasks.end[i] === NONE ? duration : tasks.end[i];
      const last = Math.min(columns - 1, Math.floor(end / per));
      for (let k = Math.max(0, Math.floor(tasks.start[i] / per)); k <= last; k++) {
        busy[c][k] += Math.max(0, Math.min(end, (k + 1) * per) - Math.max(tasks.start[i], k * per)) / per;
      }
    }
    let top = 1;
    for (let k = 0; k < columns; k++) top = Math.max(top, busy.reduce((sum, b) => sum + b[k], 0));
    const c = colours();
    const levels = new Float64Array(columns);
    for (let kind = 0; kind < kinds; kind++) {
      ctx.fillStyle = c.category[kind];
      for (let k = 0; k < columns; k++) {
        if (busy[kind][k] === 0) continue;
        const tall = Math.max(1, (busy[kind][k] / top) * (height - 4));
        ctx.fillRect(k * 2, height - levels[k] - tall, 2, tall);
        levels[k] += tall;
      }
    }
    ctx.fillStyle = c.bad;
    for (const f of model.data.findings) ctx.fillRect((f.time / duration) * width - 1, 0, 2, 5);
    this.place();
  }
}
