// The inside of a run as a drawing: a row for each stream, a bar for tasks that share a time, and a table of them.

import { Direction, Kind } from "./data.ts";
import { h } from "./dom.ts";
import * as format from "./format.ts";
import { partsOf, type Line, type Part } from "./inside.ts";
import { categoryKeys, categoryOf, shortNames, streamName, type Model } from "./model.ts";

const mostBars = 300; // of a row; more are joined
const mostLines = 100; // of the table

/** taskWords is what tasks of a model do: "3,000 × H2D copy". */
export function taskWords(m: Model, of: { kernel: string; kind: number; direction: number; count: number }): string {
  const kind = m.data.strings.kinds[of.kind] ?? "task";
  const what = of.kernel || (of.direction === Direction.None ? kind : `${shortNames[categoryOf(of.kind, of.direction)]} ${of.kind === Kind.Copy ? "copy" : kind}`);
  return of.count > 1 ? `${format.count(of.count)} × ${what}` : what;
}

interface Entry extends Line {
  part: Part;
}

/** Bar is lines of one stream that are drawn as one. */
interface Bar {
  start: number;
  end: number;
  lines: Entry[];
}

/** bars draws what went on inside a run, or is null if nothing is known. */
export function bars(m: Model, task: number): HTMLElement | null {
  const { parts, whole } = partsOf(m, task);
  if (parts.length === 0) return null;
  const all = parts.flatMap((part): Entry[] => part.lines.map((line) => ({ ...line, part })));
  const rows = new Map<string, Entry[]>();
  for (const l of all) {
    const key = `${l.part.model} ${l.stream}`;
    rows.set(key, [...(rows.get(key) ?? []), l]);
  }
  const [from, to] = [m.tasks.start[task], Math.max(m.tasks.end[task], m.tasks.start[task] + 1)];
  const own = m.data.tasks.model![task];
  const body = h("tbody");
  let shown = all;
  const rest = h("p", { className: "quiet" });
  const fill = () => {
    body.replaceChildren(...shown.slice(0, mostLines).map((l) => h("tr", {},
      h("th", { scope: "row" }, h("span", { className: "key " + categoryKeys[categoryOf(l.kind, l.direction)] }, taskWords(m, l))),
      h("td", {}, format.time(l.part.start - from)), h("td", {}, format.time(l.part.end - l.part.start)),
      h("td", {}, l.bytes > 0 ? format.bytes(l.bytes) : ""), h("td", {}, streamName(m, l.stream)),
      h("td", {}, places(l)), h("td", {}, piece(l)))));
    rest.textContent = shown.length > mostLines ? `and ${format.plural(shown.length - mostLines, "line")} more` : "";
  };
  fill();
  const buttons: HTMLButtonElement[] = [];
  const row = (list: Entry[]) => h("div", { className: "lane" },
    h("span", { className: "name" }, (list[0].part.model === own ? "" : `model ${m.data.models[list[0].part.model].id}, `) + streamName(m, list[0].stream)),
    ...tracks(joined(list)).map((track) => h("div", { className: "track" }, ...track.map((b) => {
      const text = `${words(m, b)}, ${format.time(b.end - b.start)}, ${format.time(b.start - from)} after the run began`;
      const first = b.lines[0];
      const button = h("button", {
        type: "button", className: "bar " + categoryKeys[categoryOf(first.kind, first.direction)], title: text, "aria-label": text, "aria-pressed": "false",
        style: `left:${share(b.start)}%;width:${Math.max(share(b.end) - share(b.start), 0)}%`,
        onclick: () => {
          const on = button.getAttribute("aria-pressed") !== "true";
          for (const other of buttons) other.setAttribute("aria-pressed", "false");
          button.setAttribute("aria-pressed", String(on));
          shown = on ? b.lines : all;
          fill();
        },
      });
      buttons.push(button);
      return button;
    }))));
  const share = (t: number) => Number(((100 * (Math.min(Math.max(t, from), to) - from)) / (to - from)).toFixed(3));
  return h("figure", { className: "inside" },
    h("div", { className: "lanes", role: "group", "aria-label": "Inside the run" }, ...[...rows.values()].map(row)),
    h("figcaption", {}, caption(all.some((l) => l.count > 1) || parts.some((p) => p.lines.length > 1), whole)),
    h("div", { className: "wide", tabIndex: 0, role: "group", "aria-label": "Tasks of the run" }, h("table", {},
      h("thead", {}, h("tr", {}, ...["task", "began", "took", "size", "stream", "place", "piece"].map((t) => h("th", { scope: "col" }, t)))),
      body)), rest);
}

function caption(shared: boolean, whole: boolean): string {
  if (whole) return "No times were taken inside this run: its tasks share the time of all of it.";
  return shared ? "Copies that run together are one piece. They have one time, that of their piece." : "Every task has the time of its piece, which it is alone in.";
}

/** words are what a bar stands for. */
function words(m: Model, b: Bar): string {
  const [first] = b.lines;
  const same = b.lines.every((l) => l.kind === first.kind && l.direction === first.direction && l.kernel === first.kernel);
  const count = b.lines.reduce((n, l) => n + l.count, 0);
  const bytes = b.lines.reduce((n, l) => n + l.bytes, 0);
  const what = same ? taskWords(m, { ...first, count }) : format.plural(count, "task");
  return bytes > 0 ? `${what}, ${format.bytes(bytes)}` : what;
}

const places = (l: Line) => (l.count === 1 ? String(l.first) : l.last - l.first === l.count - 1 ? `${l.first} to ${l.last}` : `${l.first} … ${l.last}`);
const piece = (l: Entry) => (l.part.count === 1 ? String(l.part.first) : `${l.part.first} to ${l.part.first + l.part.count - 1}`);

/** joined is a bar for each part and, of rows with many, one for several that follow each other. */
function joined(list: Entry[]): Bar[] {
  const bars: Bar[] = [];
  let last: Entry | undefined;
  for (const l of list) {
    if (last && last.part === l.part) bars[bars.length - 1].lines.push(l);
    else bars.push({ start: l.part.start, end: l.part.end, lines: [l] });
    last = l;
  }
  const every = Math.ceil(bars.length / mostBars);
  if (every === 1) return bars;
  const fewer: Bar[] = [];
  for (let i = 0; i < bars.length; i += every) {
    const some = bars.slice(i, i + every);
    fewer.push({
      start: Math.min(...some.map((b) => b.start)), end: Math.max(...some.map((b) => b.end)), lines: some.flatMap((b) => b.lines),
    });
  }
  return fewer;
}

/** tracks puts bars that overlap beneath each other. */
function tracks(list: Bar[]): Bar[][] {
  const all: Bar[][] = [];
  for (const b of [...list].sort((x, y) => x.start - y.start || y.end - x.end)) {
    const track = all.find((t) => t[t.length - 1].end <= b.start);
    if (track) track.push(b);
    else if (all.length < 6) all.push([b]);
    else all[5].push(b);
  }
  return all;
}
