// Which tasks and calls match the search box and the filters.

import { NONE } from "./data.ts";
import { categoryKeys, categoryNames, callEnd, shortNames, streamName, taskEnd, taskStart, threadName, type Model } from "./model.ts";

export interface Filter {
  words: string;
  categories: Set<number>; // those switched off
  function: number; // index or NONE, like the next
  stream: number; // index, NONE: any, -2: no stream
  minBytes: number | null;
  maxBytes: number | null;
  minTime: number | null;
  maxTime: number | null;
  failed: boolean;
  only: { title: string; tasks: Set<number>; calls: Set<number> } | null; // what an advice or a finding is about
}

export const noFilter = (): Filter => ({
  words: "", categories: new Set(), function: NONE, stream: NONE, minBytes: null, maxBytes: null, minTime: null, maxTime: null,
  failed: false, only: null,
});

export interface Matches {
  all: boolean; // nothing is filtered
  task: Uint8Array;
  call: Uint8Array;
  range: Uint8Array;
  tasks: number; // how many match
  inside: number; // and of those inside models
  calls: number;
}

export function active(f: Filter): boolean {
  return (
    f.words.trim() !== "" || f.categories.size > 0 || f.function !== NONE || f.stream !== NONE || f.minBytes !== null ||
    f.maxBytes !== null || f.minTime !== null || f.maxTime !== null || f.failed || f.only !== null
  );
}

export function match(m: Model, f: Filter): Matches {
  const { tasks, calls } = m;
  const result: Matches = {
    all: !active(f), task: new Uint8Array(tasks.all), call: new Uint8Array(calls.count), range: new Uint8Array(m.ranges.count).fill(1),
    tasks: 0, inside: 0, calls: 0,
  };
  if (result.all) {
    result.task.fill(1);
    result.call.fill(1);
    result.tasks = tasks.count;
    result.inside = tasks.all - tasks.count;
    result.calls = calls.count;
    return result;
  }
  const words = (f.words.toLowerCase().match(/"[^"]*"?|\S+/g) ?? []).map((w) => new Word(m, w.replaceAll('"', ""))); // "several words" are one
  for (let i = 0; i < m.ranges.count; i++) if (!words.every((w) => w.range(i))) result.range[i] = 0;
  const ofCall = new Uint8Array(calls.count); // has a task that matches
  for (let i = 0; i < tasks.all; i++) {
    if (!taskPasses(m, f, i) || !words.every((w) => w.task(i))) continue;
    result.task[i] = 1;
    if (i < tasks.count) result.tasks++;
    else result.inside++;
    if (tasks.call[i] !== NONE) ofCall[tasks.call[i]] = 1;
  }
  // Direction and size are of tasks: a call is shown for its tasks then.
  const taskOnly = f.categories.size > 0 || f.minBytes !== null || f.maxBytes !== null;
  for (let i = 0; i < calls.count; i++) {
    const own = !taskOnly && callPasses(m, f, i) && words.every((w) => w.call(i));
    if (own || (f.only === null && ofCall[i])) {
      result.call[i] = 1;
      result.calls++;
    }
  }
  return result;
}

function taskPasses(m: Model, f: Filter, i: number): boolean {
  const t = m.tasks;
  if (f.only !== null && !f.only.tasks.has(i) && !f.only.tasks.has(t.run[i])) return false;
  if (f.categories.has(t.category[i])) return false;
  if (f.failed && !t.failed[i]) return false;
  if (f.function !== NONE && (t.call[i] === NONE || m.calls.function[t.call[i]] !== f.function)) return false;
  if (f.stream !== NONE && !onStream(m, i, f.stream)) return false;
  if (f.minBytes !== null && t.bytes[i] < f.minBytes) return false;
  if (f.maxBytes !== null && t.bytes[i] > f.maxBytes) return false;
  const took = taskEnd(m, i) - taskStart(m, i);
  return !(f.minTime !== null && took < f.minTime) && !(f.maxTime !== null && took > f.maxTime);
}

/** onStream reports whether a task is one of the stream's; a copy that a call for the stream made itself is. -2 is no stream. */
function onStream(m: Model, i: number, stream: number): boolean {
  const t = m.tasks;
  if (stream === -2) return t.stream[i] === NONE;
  return t.stream[i] === stream || t.home[i] === stream || (t.stream[i] === NONE && t.call[i] !== NONE && m.calls.stream[t.call[i]] === stream);
}

function callPasses(m: Model, f: Filter, i: number): boolean {
  const c = m.calls;
  if (f.only !== null && !f.only.calls.has(i)) return false;
  if (f.failed && c.code[i] === 0) return false;
  if (f.function !== NONE && c.function[i] !== f.function) return false;
  if (f.stream !== NONE && c.stream[i] !== f.stream) return false;
  const took = callEnd(m, i) - c.start[i];
  return !(f.minTime !== null && took < f.minTime) && !(f.maxTime !== null && took > f.maxTime);
}

/** Word is a word of the search. It is looked for once in every name, so that a task is only a few table lookups. */
class Word {
  private readonly kinds: boolean[];
  private readonly categories: boolean[];
  private readonly memories: boolean[];
  private readonly functions: boolean[];
  private readonly streams: boolean[];
  private readonly threads: boolean[];
  private readonly sites: boolean[];
  private readonly texts = new Set<number>(); // tasks
  private readonly number: number;
  private readonly failed: boolean;

  constructor(private readonly m: Model, private readonly word: string) {
    const hit = (text: string) => text.toLowerCase().includes(word);
    const { data } = m;
    this.kinds = data.strings.kinds.map(hit);
    this.categories = categoryNames.map((name, c) => hit(name) || hit(shortNames[c]) || hit(categoryKeys[c]));
    this.memories = data.strings.memories.map(hit);
    this.functions = data.functions.map(hit);
    this.streams = data.streams.map((_, i) => hit(streamName(m, i)) || hit(streamName(m, i).replace(" ", "")));
    this.threads = data.threads.map((_, i) => hit(threadName(m, i)));
    this.sites = data.sites.map((s) => hit(s.place) || hit(s.function));
    for (const [i, text] of m.textOfTask) if (hit(text)) this.texts.add(i);
    this.number = word.startsWith("#") ? Number(word.slice(1)) : NaN;
    this.failed = word === "failed" || word === "error";
  }

  task(i: number): boolean {
    const t = this.m.tasks;
    return (
      this.kinds[t.kind[i]] || this.categories[t.category[i]] || this.memories[t.memory[i]] ||
      (t.call[i] !== NONE && (this.functions[this.m.calls.function[t.call[i]]] || this.sites[this.m.calls.site[t.call[i]]])) ||
      (t.stream[i] !== NONE && (this.streams[t.stream[i]] || this.streams[t.home[i]])) || (t.thread[i] !== NONE && this.threads[t.thread[i]]) ||
      this.texts.has(i) || t.number[i] === this.number || (this.failed && t.failed[i] === 1)
    );
  }

  range(i: number): boolean {
    return this.m.ranges.text[i].toLowerCase().includes(this.word);
  }

  call(i: number): boolean {
    const c = this.m.calls;
    return (
      this.functions[c.function[i]] || this.sites[c.site[i]] || this.threads[c.thread[i]] || (c.stream[i] !== NONE && this.streams[c.stream[i]]) ||
      (this.failed && c.code[i] !== 0)
    );
  }
}
