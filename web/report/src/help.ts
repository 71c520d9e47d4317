// The list of keys and gestures.

import { h } from "./dom.ts";

const keys: [string, string][] = [
  ["A D ← →", "pan; with Shift a whole screen"],
  ["W S + −", "zoom in, zoom out: at the pointer, else at the selection"],
  ["0", "show the part of the run that has work"],
  ["9", "show the whole run"],
  ["Home End", "go to the start, the end"],
  [". ,", "next, previous bar of the row"],
  ["↑ ↓", "the row above, below"],
  ["C", "collapse or expand the row; with Shift its group"],
  ["K", "keep the row at the top, or let it scroll"],
  ["F", "fill the screen with the selected bar or range"],
  ["Enter", "details of the selected bar"],
  ["Esc", "clear the selection or the search, close"],
  ["/", "search; Enter and Shift+Enter go through what it finds"],
  ["N P", "next, previous match"],
  ["T", "light or dark"],
  ["?", "this list"],
];

const gestures: [string, string][] = [
  ["Drag", "pan"],
  ["Ctrl + wheel, pinch", "zoom"],
  ["Shift + wheel", "pan"],
  ["Shift + drag", "select a range and measure it"],
  ["Double click", "zoom in"],
  ["Click", "show the details of a bar"],
  ["Click a name", "collapse or expand the row or group"],
  ["Click the pin", "keep the row at the top; it is at the right of the name"],
  ["Drag the edge of the names", "give them more room; double click: as much as they need"],
];

const legend: [string, string][] = [
  ["Colour", "the direction of a copy, as the buttons above the timeline say"],
  ["Amber edge of a call", "the part of it that waited for work"],
  ["Hatched line", "a stream that waits for an event"],
  ["Red frame and cross", "a task or call that failed; a frame alone is a task of a finding"],
  ["Grey arrow", "from the call that submitted a task to where it ran"],
  ["Blue arrow", "from the record of an event to the task that waited for it"],
  ["Amber arrow", "from a task to the call that waited for it, when either is selected"],
  ["Bars below a model's", "what ran inside it: a line for each stream that it was captured from"],
  ["Purple bar", "a range that the program has named; a tick is a moment"],
  ["Paler column", "bars below a pixel: the fuller, the more of that time something ran"],
];

export function help(): HTMLDialogElement {
  const list = (title: string, rows: [string, string][], tag: "kbd" | "span") => h("section", {},
    h("h3", {}, title),
    h("dl", {}, ...rows.flatMap(([k, v]) => [h("dt", {}, ...(tag === "kbd" ? k.split(" ").map((one) => h("kbd", {}, one)) : [k])), h("dd", {}, v)])));
  const dialog = h("dialog", { className: "help", "aria-labelledby": "help-title" },
    h("h2", { id: "help-title" }, "How to read and move around"),
    h("div", { className: "columns" }, list("Keys", keys, "kbd"), h("div", {}, list("Legend", legend, "span"), list("Pointer", gestures, "span"))),
    h("form", { method: "dialog" }, h("button", { className: "act" }, "Close")));
  dialog.addEventListener("click", (e) => {
    if (e.target === dialog) dialog.close();
  });
  return dialog;
}
