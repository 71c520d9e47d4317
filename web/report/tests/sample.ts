// Runs that nobody ran, for tests: a small one in which every bar is known, and large ones.

import { Direction, Kind, Memory, NONE, type Data } from "../src/data.ts";

type TaskColumns = Record<Exclude<keyof Data["tasks"], "failed" | "kernel" | "model">, number[]> & { failed: number[] };
type Task = { [K in keyof TaskColumns]: number };

export class Run {
  readonly data: Data;

  constructor() {
    this.data = {
      version: 4, program: ["./two streams", "--quick"], started: "2026-03-01T09:30:00Z", duration: 1_000_000, driver: "soft", checked: false,
      processes: [{ id: 4242, command: ["./two", "--quick"], ended: true }],
      devices: [{ process: 0, id: 0, name: "Ascend910B4" }],
      threads: [{ process: 0, id: 4242, name: "two" }],
      streams: [{ process: 0, id: 1, device: 0, default: false }, { process: 0, id: 2, device: 0, default: false }],
      sites: [],
      functions: ["aclrtMemcpyAsync", "aclrtSynchronizeStream", "aclrtRecordEvent", "aclrtStreamWaitEvent", "aclrtMemcpy"],
      calls: { thread: [], function: [], start: [], end: [], code: [], blocked: [], stream: [], awaited: [], site: [] },
      tasks: {
        kind: [], direction: [], memory: [], failed: [], stream: [], device: [], number: [], thread: [], call: [], segments: [],
        bytes: [], submit: [], start: [], end: [], code: [],
      },
      edges: { from: [], to: [] }, ranges: { kind: [], text: [], thread: [], start: [], end: [], task: [] }, findings: [], notes: [], stats: [], advice: [], models: [],
      strings: {
        kinds: ["copy", "2D copy", "batch", "descriptor copy", "fill", "record", "wait", "function", "other"],
        directions: ["", "host to device", "device to host", "device to device", "host to host", "to another device", "both ways"],
        memories: ["", "pinned", "registered", "pageable", "mixed"],
      },
    };
  }

  call(function_: number, start: number, end: number, more: { thread?: number; code?: number; blocked?: number; stream?: number; awaited?: number; site?: number } = {}): number {
    const c = this.data.calls;
    c.thread.push(more.thread ?? 0);
    c.function.push(function_);
    c.start.push(start);
    c.end.push(end);
    c.code.push(more.code ?? 0);
    c.blocked.push(more.blocked ?? 0);
    c.awaited.push(more.awaited ?? NONE);
    c.site.push(more.site ?? NONE);
    return c.stream.push(more.stream ?? NONE) - 1;
  }

  task(task: Partial<Task>): number {
    const full: Task = {
      kind: Kind.Copy, direction: Direction.H2D, memory: Memory.Pinned, failed: 0, stream: 0, device: 0, number: this.data.tasks.kind.length + 1,
      thread: 0, call: NONE, segments: 1, bytes: 0, submit: 0, start: 0, end: 0, code: 0, ...task,
    };
    const columns = this.data.tasks as TaskColumns;
    for (const key of Object.keys(full) as (keyof Task)[]) columns[key].push(full[key]);
    return columns.kind.length - 1;
  }

  edge(from: number, to: number): void {
    this.data.edges.from.push(from);
    this.data.edges.to.push(to);
  }

  range(kind: number, text: string, start: number, end: number, more: { thread?: number; task?: number } = {}): number {
    const r = this.data.ranges;
    r.kind.push(kind);
    r.text.push(text);
    r.start.push(start);
    r.end.push(end);
    r.task.push(more.task ?? NONE);
    return r.thread.push(more.thread ?? 0) - 1;
  }

  /** stats adds up the calls, as Go does. */
  finish(): Data {
    const { calls, functions } = this.data;
    this.data.stats = functions.flatMap((_, f) => {
      const times = calls.start.flatMap((s, i) => (calls.function[i] === f ? [calls.end[i] - s] : [])).sort((a, b) => a - b);
      if (times.length === 0) return [];
      const total = times.reduce((a, b) => a + b, 0);
      const at = (share: number) => times[Math.min(times.length - 1, Math.floor(share * times.length))];
      const errors = calls.code.filter((code, i) => calls.function[i] === f && code !== 0).length;
      return [{ function: f, count: times.length, total, mean: total / times.length, p50: at(0.5), p90: at(0.9), p99: at(0.99), max: times.at(-1)!, errors }];
    });
    return this.data;
  }
}

/** known is a run of two streams: what is copied in on the first is copied out on the second, after an event. */
export function known(): Data {
  const run = new Run();
  const us = 1000;
  const copyIn = run.task({ call: run.call(0, 10 * us, 20 * us, { stream: 0 }), bytes: 4 << 20, submit: 15 * us, start: 30 * us, end: 330 * us });
  const record = run.task({ call: run.call(2, 22 * us, 25 * us, { stream: 0 }), kind: Kind.Record, direction: 0, memory: 0, submit: 24 * us, start: 330 * us, end: 331 * us });
  const wait = run.task({ call: run.call(3, 26 * us, 29 * us, { stream: 1 }), kind: Kind.Wait, direction: 0, memory: 0, stream: 1, submit: 28 * us, start: 30 * us, end: 335 * us });
  const copyOut = run.task({ call: run.call(0, 40 * us, 50 * us, { stream: 1 }), direction: Direction.D2H, stream: 1, bytes: 1 << 20, submit: 45 * us, start: 336 * us, end: 436 * us });
  run.call(1, 60 * us, 450 * us, { stream: 1, blocked: 380 * us, awaited: copyOut });
  const pageable = run.task({ call: run.call(0, 500 * us, 700 * us, { stream: 0, blocked: 190 * us }), memory: Memory.Pageable, bytes: 1 << 20, submit: 505 * us, start: 510 * us, end: 695 * us });
  const failed = run.task({ call: run.call(0, 710 * us, 720 * us, { stream: 1 }), direction: Direction.D2H, stream: 1, bytes: 4096, submit: 715 * us, start: 730 * us, end: 740 * us, failed: 1, code: 507015 });
  run.call(1, 750 * us, 800 * us, { stream: 1, blocked: 1 * us, code: 507015 });
  const now = run.task({ call: run.call(4, 810 * us, 850 * us), stream: NONE, bytes: 64 << 10, memory: Memory.Pageable, submit: 812 * us, start: 812 * us, end: 849 * us });
  run.edge(record, wait);
  const { data } = run;
  data.findings.push({
    rule: "stream-race", severity: "error", text: "two tasks write the same bytes and nothing orders them", time: 336 * us, tasks: [copyIn, copyOut], thread: 0,
    places: [{ role: "submitted", at: "two.c:17 in main" }, { role: "submitted", at: "two.c:21 in main" }],
    remedy: "Record an event after the first task and let the other stream wait for it.",
    report: "stream-race: task 1 on stream 1\n  two.c:17 in main",
  });
  data.notes.push("The recorder stopped before the end: the disk was full.");
  data.advice.push({
    rule: "pageable", title: "A copy waited because its memory is pageable",
    text: "One asynchronous copy used memory from malloc. The call copied it itself and came back when it was done. Memory of aclrtMallocHost would let the host go on.",
    saves: 190 * us, tasks: [pageable], calls: [], numbers: [{ label: "copies", value: "1" }, { label: "blocked", value: "190 µs" }], lines: ["two.c:30 in load"],
  });
  void [wait, copyOut, failed, now];
  return run.finish();
}

/** large is a run of about n tasks in several streams and threads. */
export function large(n: number, streams = 8, threads = 4): Data {
  const run = new Run();
  const { data } = run;
  data.threads = Array.from({ length: threads }, (_, i) => ({ process: 0, id: 4242 + i, name: i ? `worker-${i}` : "main" }));
  data.streams = Array.from({ length: streams }, (_, i) => ({ process: 0, id: i + 1, device: 0, default: false }));
  let seed = 1;
  const random = () => (seed = (seed * 1103515245 + 12345) % 2147483648) / 2147483648;
  const free = new Array<number>(streams).fill(0);
  const clock = new Array<number>(threads).fill(0);
  let last = NONE;
  for (let i = 0; i < n; i++) {
    const thread = i % threads;
    const stream = Math.floor(random() * streams);
    const start = Math.max(...clock.map((t, k) => (k === thread ? t : 0))) + 200 + random() * 500;
    const call = run.call(0, Math.round(start), Math.round(start + 400), { thread, stream });
    clock[thread] = start + 400 + (random() < 0.01 ? 40_000 * random() : random() * 300);
    const bytes = 2 ** (8 + Math.floor(random() * 13));
    const began = Math.max(start + 300, free[stream]);
    const took = 300 + bytes / 200;
    free[stream] = began + took;
    const event = i % 50 === 48 ? Kind.Record : i % 50 === 49 ? Kind.Wait : Kind.Copy;
    const task = run.task({
      kind: event, direction: event === Kind.Copy ? 1 + Math.floor(random() * 3) : 0, stream, thread, call, bytes: event === Kind.Copy ? bytes : 0,
      number: i, submit: Math.round(start + 200), start: Math.round(began), end: Math.round(began + took),
    });
    if (event === Kind.Wait) run.edge(last, task);
    last = task;
  }
  data.duration = Math.round(Math.max(...free, ...clock));
  sortTasks(data);
  return run.finish();
}

/** sortTasks puts tasks into the order in which they were submitted, and calls into that of their start. */
function sortTasks(data: Data): void {
  const order = (keys: number[]) => {
    const at = keys.map((_, i) => i).sort((a, b) => keys[a] - keys[b]);
    const to = new Array<number>(keys.length);
    at.forEach((old, now) => (to[old] = now));
    return { at, to };
  };
  const calls = order(data.calls.start);
  const tasks = order(data.tasks.submit);
  const move = (table: Record<string, unknown[]>, at: number[]) => {
    for (const key of Object.keys(table)) table[key] = at.map((i) => table[key][i]);
  };
  move(data.calls as unknown as Record<string, unknown[]>, calls.at);
  move(data.tasks as unknown as Record<string, unknown[]>, tasks.at);
  data.tasks.call = data.tasks.call.map((c) => calls.to[c]);
  data.edges.from = data.edges.from.map((t) => tasks.to[t]);
  data.edges.to = data.edges.to.map((t) => tasks.to[t]);
}

/** captured is a run that executes a model: two streams, one event each way, and many copies that are alike. */
export function captured(copies = 3000): Data {
  const run = new Run();
  const { data } = run;
  data.strings.kinds = [...data.strings.kinds, "notify record", "notify wait", "value write", "value wait", "reduce", "random", "prefetch", "mark", "kernel", "model"];
  const m: Data["models"][number] = { process: 0, id: 7, tasks: 0, kind: [], direction: [], stream: [], segments: [], kernel: [], bytes: [], after: [] };
  const node = (stream: number, kind: number, direction: number, bytes: number, after: number = NONE, kernel = "") => {
    m.stream.push(stream);
    m.kind.push(kind);
    m.direction.push(direction);
    m.bytes.push(bytes);
    m.after.push(after);
    m.kernel.push(kernel);
    m.segments.push(kernel ? 8 : 0);
    m.tasks++;
    return m.kind.length - 1;
  };
  const fork = node(0, Kind.Record, Direction.None, 0);
  node(1, Kind.Wait, Direction.None, 0, fork);
  for (let i = 0; i < copies; i++) node(1, Kind.Copy, Direction.H2D, 1024);
  node(0, Kind.Kernel, Direction.None, 0, NONE, "add");
  const join = node(1, Kind.Record, Direction.None, 0);
  node(0, Kind.Wait, Direction.None, 0, join);
  node(0, Kind.Copy, Direction.D2H, 4096);
  data.models.push(m);
  const c = run.call(0, 10_000, 30_000, { stream: 0 });
  run.task({ kind: Kind.Model, direction: Direction.None, memory: Memory.None, call: c, segments: m.tasks, bytes: copies * 1024 + 4096, submit: 20_000, start: 40_000, end: 800_000 });
  data.tasks.model = [0];
  return data;
}

/** timed is captured with times inside the run: of each piece on both streams, which run side by side. */
export function timed(copies = 3000): Data {
  const data = captured(copies);
  const m = data.models[0];
  const last = [1, 2, 3].map((n) => copies + 1 + n); // kernel, record, wait; the copy back comes after them
  m.piece = m.kind.map(() => 5);
  [m.piece[0], m.piece[1], m.piece[last[0]], m.piece[last[1]], m.piece[last[2]], m.piece[last[2] + 1]] = [0, 4, 1, 6, 2, 3];
  const part = (first: number, start: number, end: number) => {
    const p = (data.parts ??= { task: [], model: [], first: [], count: [], start: [], end: [] });
    p.task.push(0);
    p.model.push(0);
    p.first.push(first);
    p.count.push(1);
    p.start.push(start);
    p.end.push(end);
  };
  part(0, 40_000, 41_000);
  part(4, 40_000, 42_000);
  part(1, 41_000, 300_000);
  part(5, 42_000, 600_000);
  part(2, 300_000, 602_000);
  part(6, 600_000, 601_000);
  part(3, 602_000, 800_000);
  return data;
}
