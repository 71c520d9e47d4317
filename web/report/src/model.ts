// The run, laid out: typed columns, and the rows of the timeline with what is in each.

import { coresOf, itemsOfCores } from "./cores.ts";
import { expand } from "./inside.ts";
import { Direction, Kind, NONE, RangeKind, records, waits, type Data } from "./data.ts";

/** What a bar is about: it gives the colour, the legend and the first filter. */
export const enum Category { H2D, D2H, D2D, H2H, Peer, Both, Fill, Event, Function, Kernel, Model, Other, Call, Range }
export const categoryNames = [
  "host to device", "device to host", "device to device", "host to host", "to another device", "both ways",
  "fill", "event", "function", "kernel", "run of a model", "other", "call", "range",
];
export const shortNames = ["H2D", "D2H", "D2D", "H2H", "Peer", "Both", "Fill", "Event", "Func", "Kernel", "Model", "Other", "Call", "Range"];
export const categoryKeys = ["h2d", "d2h", "d2d", "h2h", "peer", "both", "fill", "event", "function", "kernel", "model", "other", "call", "range"];

/** Tasks are those that calls submitted or carried out, then those inside runs of models: each of these stands for tasks of a model that do the same and share a time. */
export interface Tasks {
  count: number; // of those that calls submitted or carried out
  all: number;
  kind: Uint8Array;
  direction: Uint8Array;
  memory: Uint8Array;
  category: Uint8Array;
  failed: Uint8Array;
  stream: Int32Array;
  device: Int32Array;
  number: Float64Array;
  thread: Int32Array;
  call: Int32Array;
  segments: Float64Array;
  bytes: Float64Array;
  submit: Float64Array;
  start: Float64Array; // NONE: it has not run
  end: Float64Array; // NONE: it was not over
  code: Int32Array;
  run: Int32Array; // the task that executed the model; NONE: it is inside none
  times: Float64Array; // for how many tasks of the model it stands; 1 for others
  home: Int32Array; // the stream that it was captured from; that of the task for others
  shared: Uint8Array; // its time is also that of other tasks of the model
  kernels: Map<number, string>; // names
}

export interface Calls {
  count: number;
  thread: Int32Array;
  function: Int32Array;
  start: Float64Array;
  end: Float64Array; // NONE: it had not returned
  code: Int32Array;
  blocked: Float64Array;
  stream: Int32Array;
  awaited: Int32Array; // the task that it waited for, or NONE
  site: Int32Array; // where it comes from, or NONE
}

/** Ranges are parts of what threads do, and moments, to which the program gave texts. */
export interface Ranges {
  count: number;
  kind: Uint8Array;
  text: string[];
  thread: Int32Array;
  start: Float64Array;
  end: Float64Array; // NONE: it had not ended
  task: Int32Array; // that marks a moment on a stream, or NONE
}

/** Lane is a line of bars, by start. reach[i] is the latest end of bars 0 to i, so that the first visible one is found fast. */
export interface Lane {
  items: Int32Array;
  start: Float64Array;
  end: Float64Array;
  reach: Float64Array;
}

export interface Row {
  key: string; // names it in addresses
  group: string; // key of the group that it is in, or ""
  kind: "group" | "findings" | "ranges" | "thread" | "stream" | "engine" | "core";
  name: string;
  note: string; // beside the name, quieter
  of: "task" | "call" | "finding" | "range" | "none";
  lanes: Lane[];
  index: number; // of the thread or stream; NONE for others
}

export interface Model {
  data: Data;
  duration: number;
  work: [number, number]; // the part of the run that has tasks
  tasks: Tasks;
  calls: Calls;
  ranges: Ranges;
  rows: Row[];
  categories: Category[]; // those that are there
  rowOfStream: Map<number, number>; // stream, or -2-device for its synchronous copies -> row
  rowOfThread: Map<number, number>;
  rowOfRanges: Map<number, number>; // thread -> row
  textOfTask: Map<number, string>; // of tasks that mark moments, and names of kernels
  awaitedBy: Map<number, number[]>; // task -> calls that waited for it
  before: Map<number, number[]>; // task -> tasks that it waited for
  after: Map<number, number[]>;
  tasksOfCall: Map<number, number[]>;
  laneOfTask: Uint8Array; // in the row of its stream
  laneOfCall: Uint8Array;
  laneOfRange: Uint8Array;
  itemOfCore: Int32Array; // piece of data.cores -> task
}

export function build(data: Data): Model {
  const submitted = taskColumns(data);
  const calls = callColumns(data);
  const ranges = rangeColumns(data);
  let duration = Math.max(data.duration, 1);
  for (let i = 0; i < submitted.count; i++) duration = Math.max(duration, submitted.end[i], submitted.submit[i]);
  for (let i = 0; i < calls.count; i++) duration = Math.max(duration, calls.end[i], calls.start[i]);
  for (let i = 0; i < ranges.count; i++) duration = Math.max(duration, ranges.end[i], ranges.start[i]);

  const tasks = expand(data, submitted, duration);
  const model: Model = {
    data, duration, work: workOf(tasks, calls, duration), tasks, calls, ranges, rows: [],
    categories: [...new Set(tasks.category)].sort((a, b) => a - b),
    rowOfStream: new Map(), rowOfThread: new Map(), rowOfRanges: new Map(), textOfTask: new Map(),
    before: new Map(), after: new Map(), tasksOfCall: new Map(), awaitedBy: new Map(),
    laneOfTask: new Uint8Array(tasks.all), laneOfCall: new Uint8Array(calls.count), laneOfRange: new Uint8Array(ranges.count),
    itemOfCore: new Int32Array(0),
  };
  for (let i = 0; i < data.edges.from.length; i++) {
    push(model.before, data.edges.to[i], data.edges.from[i]);
    push(model.after, data.edges.from[i], data.edges.to[i]);
  }
  for (let i = 0; i < tasks.count; i++) if (tasks.call[i] !== NONE) push(model.tasksOfCall, tasks.call[i], i);
  for (let i = 0; i < calls.count; i++) if (calls.awaited[i] !== NONE) push(model.awaitedBy, calls.awaited[i], i);
  for (let i = 0; i < ranges.count; i++) if (ranges.task[i] !== NONE) model.textOfTask.set(ranges.task[i], ranges.text[i]);
  for (const [i, kernel] of tasks.kernels) model.textOfTask.set(i, kernel);
  model.itemOfCore = itemsOfCores(model);
  layRows(model);
  for (const row of model.rows) {
    if (row.kind !== "thread" && row.kind !== "stream" && row.kind !== "ranges") continue;
    const laneOf = { call: model.laneOfCall, task: model.laneOfTask, range: model.laneOfRange }[row.of as "call" | "task" | "range"];
    row.lanes.forEach((lane, l) => lane.items.forEach((i) => (laneOf[i] = l)));
  }
  return model;
}

/** workOf is from where the first task is submitted to where the last one ends, and the calls that waited for them. */
function workOf(tasks: Tasks, calls: Calls, duration: number): [number, number] {
  let from = Infinity;
  let to = -Infinity;
  for (let i = 0; i < tasks.count; i++) {
    from = Math.min(from, tasks.submit[i], tasks.call[i] === NONE ? Infinity : calls.start[tasks.call[i]]);
    to = Math.max(to, tasks.submit[i], tasks.end[i] === NONE && tasks.start[i] !== NONE ? duration : tasks.end[i]);
  }
  for (let i = 0; i < calls.count; i++) if (calls.awaited[i] !== NONE) to = Math.max(to, calls.end[i]);
  return from <= to ? [from, to] : [0, duration];
}

function taskColumns(data: Data): Tasks {
  const t = data.tasks;
  const tasks: Tasks = {
    count: t.submit.length,
    kind: new Uint8Array(t.kind), direction: new Uint8Array(t.direction), memory: new Uint8Array(t.memory),
    category: new Uint8Array(t.submit.length), failed: new Uint8Array(t.failed as number[]),
    stream: new Int32Array(t.stream), device: new Int32Array(t.device), number: new Float64Array(t.number),
    thread: new Int32Array(t.thread), call: new Int32Array(t.call), segments: new Float64Array(t.segments),
    bytes: new Float64Array(t.bytes), submit: new Float64Array(t.submit), start: new Float64Array(t.start),
    end: new Float64Array(t.end), code: new Int32Array(t.code),
    all: t.submit.length, run: new Int32Array(t.submit.length).fill(NONE), times: new Float64Array(t.submit.length).fill(1),
    home: new Int32Array(t.stream), shared: new Uint8Array(t.submit.length), kernels: new Map(),
  };
  for (let i = 0; i < tasks.count; i++) tasks.category[i] = categoryOf(tasks.kind[i], tasks.direction[i]);
  t.kernel?.forEach((name, i) => name && tasks.kernels.set(i, name));
  return tasks;
}

function callColumns(data: Data): Calls {
  const c = data.calls;
  return {
    count: c.start.length,
    thread: new Int32Array(c.thread), function: new Int32Array(c.function), start: new Float64Array(c.start),
    end: new Float64Array(c.end), code: new Int32Array(c.code), blocked: new Float64Array(c.blocked),
    stream: new Int32Array(c.stream), awaited: new Int32Array(c.awaited),
    site: new Int32Array(c.site),
  };
}

function rangeColumns(data: Data): Ranges {
  const r = data.ranges;
  return {
    count: r.start.length, kind: new Uint8Array(r.kind), text: r.text, thread: new Int32Array(r.thread),
    start: new Float64Array(r.start), end: new Float64Array(r.end), task: new Int32Array(r.task),
  };
}

export function categoryOf(kind: number, direction: number): Category {
  if (kind === Kind.Fill) return Category.Fill;
  if (records(kind) || waits(kind)) return Category.Event;
  if (kind === Kind.Function) return Category.Function;
  if (kind === Kind.Kernel) return Category.Kernel;
  if (kind === Kind.Model) return Category.Model;
  if (kind > Kind.Function) return Category.Other;
  return direction === Direction.None ? Category.Both : direction - 1;
}

function push(map: Map<number, number[]>, key: number, value: number): void {
  const list = map.get(key);
  if (list) list.push(value);
  else map.set(key, [value]);
}

// Bars

export function taskStart(m: Model, i: number): number {
  return m.tasks.start[i] === NONE ? m.tasks.submit[i] : m.tasks.start[i];
}

/** failed reports whether a task has failed, or the run that it is inside. */
export function failed(m: Model, i: number): boolean {
  const { failed, run } = m.tasks;
  return failed[i] === 1 || (run[i] !== NONE && failed[run[i]] === 1);
}

/** moved reports whether a task is a copy that is over and has not failed. */
export function moved(m: Model, i: number): boolean {
  return m.tasks.category[i] <= Category.Both && m.tasks.end[i] !== NONE && !failed(m, i);
}

/** taskEnd is where the bar ends: a task that runs when the run ends reaches to there, one that never ran is a mark. */
export function taskEnd(m: Model, i: number): number {
  if (m.tasks.start[i] === NONE) return m.tasks.submit[i];
  return m.tasks.end[i] === NONE ? m.duration : m.tasks.end[i];
}

export function callEnd(m: Model, i: number): number {
  return m.calls.end[i] === NONE ? m.duration : m.calls.end[i];
}

export function rangeEnd(m: Model, i: number): number {
  return m.ranges.end[i] === NONE ? m.duration : m.ranges.end[i];
}

const mostLanes = 6;

/** lanes puts bars that overlap into lines of their own, as few as it takes; what does not fit shares the last one. */
function lanes(items: number[], start: (i: number) => number, end: (i: number) => number): Lane[] {
  items.sort((a, b) => start(a) - start(b) || end(b) - end(a));
  const lists: number[][] = [];
  const ends: number[] = [];
  for (const i of items) {
    let lane = ends.findIndex((e) => e <= start(i));
    if (lane < 0) lane = lists.length < mostLanes ? lists.push([]) - 1 : mostLanes - 1;
    lists[lane].push(i);
    ends[lane] = Math.max(ends[lane] ?? 0, end(i));
  }
  return lists.map((list) => {
    const lane: Lane = {
      items: Int32Array.from(list), start: Float64Array.from(list, start), end: Float64Array.from(list, end),
      reach: new Float64Array(list.length),
    };
    let reach = 0;
    for (let k = 0; k < list.length; k++) lane.reach[k] = reach = Math.max(reach, lane.end[k]);
    return lane;
  });
}

/** insideLanes are lines for what ran inside models, below the runs: for each stream that it was captured from, as long as these are few. */
function insideLanes(m: Model, items: number[]): Lane[] {
  const { home, start } = m.tasks;
  const pack = (list: number[]) => lanes(list, (i) => start[i], (i) => taskEnd(m, i));
  const streams = [...new Set(items.map((i) => home[i]))].sort((a, b) => a - b);
  const apart = streams.flatMap((s) => pack(items.filter((i) => home[i] === s)));
  return apart.length <= mostLanes ? apart : pack(items);
}

/** rangeLanes are free ranges, which may hold the others, then nested ones, and below them the moments. */
function rangeLanes(m: Model, items: number[]): Lane[] {
  const [start, end] = [(i: number) => m.ranges.start[i], (i: number) => rangeEnd(m, i)];
  const of = (kind: number) => items.filter((i) => m.ranges.kind[i] === kind);
  return [
    ...lanes(of(RangeKind.Free), start, end), ...lanes(of(RangeKind.Nested), start, end), ...lanes(of(RangeKind.Moment), start, end),
  ];
}

/** firstVisible is the first bar of the lane that may reach time t. */
export function firstVisible(lane: Lane, t: number): number {
  let low = 0;
  let high = lane.reach.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (lane.reach[middle] < t) low = middle + 1;
    else high = middle;
  }
  return low;
}

// Rows: findings, then for each process its threads, then for each device its streams, its copy engines and its cores.

function layRows(m: Model): void {
  const { data, tasks, calls, rows } = m;
  const callsOf = new Map<number, number[]>();
  for (let i = 0; i < calls.count; i++) push(callsOf, calls.thread[i], i);
  const tasksOf = new Map<number, number[]>();
  const insideOf = new Map<number, number[]>();
  const engineOf = new Map<number, number[]>(); // device * 16 + category
  for (let i = 0; i < tasks.all; i++) {
    push(tasks.run[i] === NONE ? tasksOf : insideOf, queueOf(tasks, i), i);
    if (tasks.category[i] <= Category.Both && tasks.start[i] !== NONE) {
      push(engineOf, Math.max(0, tasks.device[i]) * 16 + tasks.category[i], i);
    }
  }
  const rangesOf = new Map<number, number[]>();
  for (let i = 0; i < m.ranges.count; i++) push(rangesOf, m.ranges.thread[i], i);
  const several = data.processes.length > 1;
  const taskLanes = (items: number[]) => lanes(items, (i) => taskStart(m, i), (i) => taskEnd(m, i));
  let within = "";
  const add = (row: Omit<Row, "group">) => rows.push({ ...row, group: row.kind === "group" ? "" : within }) - 1;
  const group = (key: string, name: string, note: string) => {
    within = key;
    add({ key, kind: "group", name, note, of: "none", lanes: [], index: NONE });
  };

  if (data.findings.length > 0) {
    add({ key: "f", kind: "findings", name: "Findings", note: "", of: "finding", lanes: [], index: NONE });
  }
  const processes = data.processes.length > 0 ? data.processes : [{ id: 0, command: data.program, ended: true }];
  processes.forEach((process, p) => {
    const of = several ? processName(process) : "";
    const threads = data.threads.flatMap((t, i) => (t.process === p && (callsOf.has(i) || rangesOf.has(i)) ? [i] : []));
    if (threads.length > 0) group(`h${p}`, "Host threads", of);
    for (const i of threads) {
      const t = data.threads[i];
      const items = callsOf.get(i);
      const named = rangesOf.get(i);
      if (named) m.rowOfRanges.set(i, add({ key: `r${i}`, kind: "ranges", name: "Ranges", note: `of ${threadName(m, i)}`, of: "range", index: i, lanes: rangeLanes(m, named) }));
      if (!items) continue;
      m.rowOfThread.set(i, add({
        key: `t${i}`, kind: "thread", name: t.name || "thread", note: (t.id === process.id ? "main, " : "") + t.id, of: "call", index: i,
        lanes: lanes(items, (c) => calls.start[c], (c) => callEnd(m, c)),
      }));
    }
    data.devices.forEach((device, d) => {
      if (device.process !== p) return;
      const streams = data.streams.flatMap((s, i) => (s.device === d && tasksOf.has(i) ? [i] : []));
      const at = (several ? of + " · " : "") + (device.name || "");
      if (streams.length > 0 || tasksOf.has(-2 - d)) group(`d${d}`, `Device ${device.id}: streams`, at);
      for (const i of streams) {
        const s = data.streams[i];
        m.rowOfStream.set(i, add({
          key: `s${i}`, kind: "stream", name: `Stream ${s.id}`, note: s.default ? "default" : "", of: "task", index: i,
          lanes: [...taskLanes(tasksOf.get(i)!), ...insideLanes(m, insideOf.get(i) ?? [])],
        }));
      }
      if (tasksOf.has(-2 - d)) {
        m.rowOfStream.set(-2 - d, add({
          key: `n${d}`, kind: "stream", name: "No stream", note: "in the call", of: "task", index: NONE, lanes: taskLanes(tasksOf.get(-2 - d)!),
        }));
      }
      const engines = [...engineOf.keys()].filter((k) => k >> 4 === d).sort((a, b) => a - b);
      if (engines.length > 0) group(`e${d}`, `Device ${device.id}: copy engines`, at);
      for (const key of engines) {
        const c = key & 15;
        add({ key: `x${key}`, kind: "engine", name: shortNames[c], note: categoryNames[c], of: "task", index: NONE, lanes: taskLanes(engineOf.get(key)!) });
      }
      const cores = coresOf(m, d);
      if (cores.length > 0) group(`k${d}`, `Device ${device.id}: cores`, at);
      for (const { number, pieces } of cores) {
        const list = lanes(pieces, (i) => data.cores!.start[i], (i) => data.cores!.end[i]);
        for (const lane of list) lane.items = lane.items.map((i) => m.itemOfCore[i]);
        add({ key: `c${d}.${number}`, kind: "core", name: `Core ${number}`, note: "", of: "task", index: NONE, lanes: list });
      }
    });
  });
}

/** queueOf is the task's stream, or -2-device: synchronous copies are in none, and have a row for each device. */
function queueOf(tasks: Tasks, i: number): number {
  return tasks.stream[i] === NONE ? -2 - Math.max(0, tasks.device[i]) : tasks.stream[i];
}

/** rowOfTask is the row of the task's stream. */
export function rowOfTask(m: Model, i: number): number {
  return m.rowOfStream.get(queueOf(m.tasks, i)) ?? NONE;
}

export function streamName(m: Model, stream: number): string {
  if (stream === NONE) return "no stream (in the call)";
  const s = m.data.streams[stream];
  return `stream ${s.id}` + (s.default ? " (default)" : "");
}

/** siteText is where a call comes from, or "". */
export function siteText(m: Model, call: number): string {
  const s = call === NONE ? undefined : m.data.sites[m.calls.site[call]];
  return s ? [s.place, s.function].filter(Boolean).join(" in ") : "";
}

export function processName(p: Data["processes"][number]): string {
  return (p.server === undefined ? "" : `server ${p.server}, `) + `process ${p.id}`;
}

export function threadName(m: Model, thread: number): string {
  const t = m.data.threads[thread];
  return t ? `${t.name || "thread"} ${t.id}` : "unknown";
}
