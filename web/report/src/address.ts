// The view in the page's address, so that it can be sent: #t=FROM,TO with ns, then what is selected, marked and searched for, and which rows
// are pinned and collapsed.

import type { State, Thing } from "./state.ts";

/** restore shows what the address names, if it names anything. */
export function restore(state: State, hash: string): void {
  if (!hash.startsWith("#t=")) return;
  const words = new URLSearchParams(hash.slice(1));
  const pair = (key: string): [number, number] | null => {
    const [a, b] = (words.get(key) ?? "").split(",").map(Number);
    return Number.isFinite(a) && Number.isFinite(b) && a < b ? [a, b] : null;
  };
  if (words.has("q")) state.refine({ words: words.get("q")! });
  const view = pair("t");
  if (view) state.look(...view);
  const range = pair("range");
  if (range) state.mark(range);
  const [of, index] = (words.get("sel") ?? "").split(":");
  const counts = { task: state.model.tasks.all, call: state.model.calls.count, finding: state.model.data.findings.length, range: state.model.ranges.count };
  const known = of === "task" || of === "call" || of === "finding" || of === "range";
  if (known && Number.isInteger(Number(index)) && Number(index) >= 0 && Number(index) < counts[of]) {
    state.select({ of, index: Number(index) } as Thing);
  }
  // Last: what is selected may be in a group that is collapsed.
  const keys = new Set(state.model.rows.map((r) => r.key));
  for (const [word, set] of [["pin", state.pinned], ["fold", state.folded]] as const) {
    set.clear();
    for (const key of (words.get(word) ?? "").split(",")) if (keys.has(key)) set.add(key);
  }
  state.notify("rows");
}

/** address is the view as the part of an address after #. */
export function address(state: State): string {
  const words = [`t=${Math.round(state.from)},${Math.round(state.to)}`];
  if (state.selected) words.push(`sel=${state.selected.of}:${state.selected.index}`);
  if (state.range) words.push(`range=${state.range.map(Math.round).join(",")}`);
  if (state.filter.words.trim() !== "") words.push("q=" + encodeURIComponent(state.filter.words));
  if (state.pinned.size > 0) words.push("pin=" + [...state.pinned].join(","));
  if (state.folded.size > 0) words.push("fold=" + [...state.folded].join(","));
  return "#" + words.join("&");
}

/** keep writes the view into the address as it changes, a moment later, and follows an address that the reader enters. */
export function keep(state: State): void {
  let due = 0;
  state.listen((change) => {
    if (change === "hover" || change === "theme" || change === "layout" || due) return;
    due = window.setTimeout(() => {
      due = 0;
      try {
        history.replaceState(null, "", address(state));
      } catch { /* a frame whose page was handed to it has no address of its own */ }
    }, 250);
  });
  addEventListener("hashchange", () => restore(state, location.hash));
}
