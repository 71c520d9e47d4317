// Source lines, names of moments and ranges, and rows that are pinned and collapsed.

import assert from "node:assert/strict";
import { after, afterEach, before, test } from "node:test";
import type { Browser, Page } from "playwright-core";
import { NONE, Kind, RangeKind } from "../src/data.ts";
import { build } from "../src/model.ts";
import { launch, matches, open, row, selected, stop, visible, where, write, type Opened } from "./browser.ts";
import { known, Run } from "./sample.ts";

let browser: Browser;
let file: string;
let opened: Opened | null = null;

/** named is the known run with lines, ranges and a moment on a stream. */
function named() {
  const data = known();
  const us = 1000;
  data.strings.kinds.push("notify record", "notify wait", "value write", "value wait", "reduce", "random", "prefetch", "mark", "kernel");
  data.sites = [{ place: "src/two.c:17", function: "load" }, { place: "app+0x11f2", function: "" }];
  data.calls.site = data.calls.start.map((_, i) => [0, 1, NONE][i % 3]);
  const run = new Run();
  Object.assign(run.data, data);
  const mark = run.task({ kind: Kind.Mark, direction: 0, memory: 0, stream: 1, number: 9, submit: 900 * us, start: 900 * us, end: 900 * us });
  const kernel = run.task({ kind: Kind.Kernel, direction: 0, memory: 0, stream: 1, number: 10, segments: 8, submit: 905 * us, start: 910 * us, end: 940 * us });
  run.data.tasks.kernel = run.data.tasks.kind.map((_, i) => (i === kernel ? "add_vectors" : ""));
  run.range(RangeKind.Free, "request 7", 5 * us, 950 * us);
  run.range(RangeKind.Nested, "prefill", 10 * us, 480 * us);
  run.range(RangeKind.Nested, "layer <1>", 15 * us, 200 * us);
  run.range(RangeKind.Moment, "first token", 900 * us, 900 * us, { task: mark });
  run.range(RangeKind.Nested, "open", 960 * us, NONE);
  return run.data;
}

before(async () => {
  browser = await launch();
  file = write("named", named());
});
after(() => stop(browser));
afterEach(async () => {
  if (!opened) return;
  assert.deepEqual(opened.errors, [], "errors in the page");
  await opened.page.context().close();
  opened = null;
});

async function show(options = {}, hash = ""): Promise<Page> {
  opened = await open(browser, file, options, hash);
  return opened.page;
}

/** choose clicks the middle of a bar. */
async function choose(page: Page, of: string, index: number): Promise<void> {
  const at = await where(page, of, index);
  await page.mouse.click(at.x, at.y);
}

const keys = async (page: Page) => (await visible(page)).rows.filter((r) => r.height > 0).sort((a, b) => a.top - b.top).map((r) => r.key);
const rowOf = async (page: Page, key: string) => (await visible(page)).rows.find((r) => r.key === key)!;

/** at is a point in the row with a key, in pixels of the window: x from the left of the timeline, or from the end of the names. */
async function at(page: Page, key: string, x: number): Promise<{ x: number; y: number }> {
  const box = (await page.locator(".timeline canvas").boundingBox())!;
  const { gutter } = await visible(page);
  const r = await rowOf(page, key);
  return { x: box.x + (x < 0 ? gutter + x : x), y: box.y + r.top + r.height / 2 };
}

const click = async (page: Page, key: string, x: number) => {
  const p = await at(page, key, x);
  await page.mouse.click(p.x, p.y);
};

test("rows of several processes name the server of a pod", () => {
  const data = known();
  data.processes = [{ ...data.processes[0], server: 0 }, { id: 4243, command: ["./two"], ended: true, server: 1 }, { id: 4244, command: ["./two"], ended: true }];
  data.threads.push({ process: 1, id: 4243, name: "two" }, { process: 2, id: 4244, name: "two" });
  for (const thread of [1, 2]) {
    for (const column of Object.values(data.calls)) column.push(column[0]);
    data.calls.thread[data.calls.thread.length - 1] = thread;
  }
  const rows = build(data).rows.filter((r) => r.kind === "group" && r.name === "Host threads");
  assert.deepEqual(rows.map((r) => r.note), ["server 0, process 4242", "server 1, process 4243", "process 4244"]);
});

test("a call and its tasks say where they come from, and the search finds the file and the function", async () => {
  const page = await show();
  await choose(page, "call", 0);
  assert.match(await page.innerText("#panel-details"), /source\s+src\/two\.c:17 in load/);
  await choose(page, "task", 0);
  assert.match(await page.innerText("#panel-details"), /source\s+src\/two\.c:17 in load/);
  await choose(page, "call", 4);
  assert.match(await page.innerText("#panel-details"), /source\s+app\+0x11f2/);
  await choose(page, "call", 5);
  assert.doesNotMatch(await page.innerText("#panel-details"), /source/);
  await page.fill("input[type=search]", "two.c:17");
  const found = await matches(page);
  assert.equal(found.all, false);
  assert.equal(found.calls, 3);
  await page.click("#tab-advice");
  assert.match(await page.innerText(".advice .lines"), /two\.c:30 in load/);
});

test("ranges have a row above their thread, with their texts, and moments are on the stream too", async () => {
  const page = await show();
  await page.click('button:text-is("All")');
  const bars = await row(page, "Ranges");
  assert.deepEqual(bars.map((b) => b.index).sort(), [0, 1, 2, 3, 4]);
  assert.deepEqual(new Set(bars.map((b) => b.category)), new Set(["range"]));
  assert.ok((await rowOf(page, "r0")).top < (await rowOf(page, "t0")).top);
  await choose(page, "range", 2);
  assert.deepEqual(await selected(page), { of: "range", index: 2 });
  assert.match(await page.innerText("#panel-details"), /layer <1>[\s\S]*took\s+185 µs[\s\S]*thread\s+two 4242/);
  await choose(page, "range", 4);
  assert.match(await page.innerText("#panel-details"), /had not ended/);
  await choose(page, "range", 3);
  assert.match(await page.innerText("#panel-details"), /first token[\s\S]*at\s+900/);
  await page.click("text=marked by mark “first token” #9 on stream 2");
  assert.deepEqual(await selected(page), { of: "task", index: 7 });
  await page.fill("input[type=search]", "layer");
  assert.deepEqual((await row(page, "Ranges")).filter((b) => b.matches).map((b) => b.index), [2]);
});

test("a kernel has its name, its blocks and a colour of its own, is counted at the top, and the search finds it", async () => {
  const page = await show();
  const kernel = named().tasks.kind.indexOf(Kind.Kernel);
  await choose(page, "task", kernel);
  assert.match(await page.innerText("#panel-details"), /kernel “add_vectors” #10 on stream 2[\s\S]*blocks\s+8[\s\S]*ran\s+30/);
  const bar = (await visible(page)).rows.flatMap((r) => r.bars).find((b) => b.of === "task" && b.index === kernel)!;
  assert.equal(bar.category, "kernel");
  assert.match(await page.innerText(".summary"), /Kernels\s+1 launch\s+30 µs in all/i);
  await page.fill("input[type=search]", "add_vec");
  assert.equal((await matches(page)).tasks, 1);
});

test("the keyboard walks over ranges", async () => {
  const page = await show();
  await choose(page, "call", 0);
  await page.keyboard.press("ArrowUp");
  assert.equal((await selected(page))?.of, "range");
});

test("a click on a name collapses its row or group, and another one expands it", async () => {
  const page = await show();
  const before = await rowOf(page, "r0");
  await click(page, "r0", 60);
  assert.ok((await rowOf(page, "r0")).height < before.height / 2, "the row is lower");
  assert.equal((await row(page, "Ranges")).length > 0, true, "and its bars are still there");
  await click(page, "d0", 60);
  assert.deepEqual((await keys(page)).filter((k) => /^[sn]/.test(k)), []);
  assert.ok((await keys(page)).includes("d0"));
  await click(page, "d0", 60);
  await click(page, "r0", 60);
  assert.equal((await rowOf(page, "r0")).height, before.height);
  assert.deepEqual((await keys(page)).filter((k) => /^[sn]/.test(k)), ["s0", "s1", "n0"]);
});

test("a pinned row stays at the top while the others scroll", async () => {
  const page = await show({ viewport: { width: 1400, height: 420 } });
  await page.locator(".timeline").evaluate((e) => e.scrollIntoView());
  await click(page, "s1", -14);
  assert.equal((await keys(page))[0], "s1");
  const top = (await rowOf(page, "s1")).top;
  const other = (await rowOf(page, "s0")).top;
  await page.locator(".scroller").evaluate((e) => (e.scrollTop = 60));
  assert.equal((await rowOf(page, "s1")).top, top);
  assert.ok((await rowOf(page, "s0")).top < other);
  await choose(page, "task", 3); // a bar of it can be chosen there
  assert.deepEqual(await selected(page), { of: "task", index: 3 });
  await click(page, "s1", -14);
  assert.notEqual((await keys(page))[0], "s1");
});

test("C collapses, K pins, and the address keeps both", async () => {
  const page = await show();
  await choose(page, "task", 0);
  await page.keyboard.press("k");
  assert.equal((await keys(page))[0], "s0");
  await choose(page, "call", 0);
  await page.keyboard.press("c");
  assert.ok((await rowOf(page, "t0")).height < 16);
  await page.keyboard.press("Shift+C");
  assert.equal((await rowOf(page, "t0")).height, 0);
  await page.waitForFunction(() => location.hash.includes("pin=s0") && location.hash.includes("fold=t0,h0"), null, { timeout: 5000 });
  const hash = await page.evaluate(() => location.hash);
  await page.context().close();
  const again = await show({}, hash.replace("pin=s0", "pin=s0,nothing"));
  assert.equal((await keys(again))[0], "s0");
  assert.ok(!(await keys(again)).includes("t0"));
  await again.evaluate(() => (location.hash = "#t=0,1000000&sel=call:0")); // what is chosen is shown
  await again.waitForFunction(() => window.ropeway.visible().rows.find((r) => r.key === "t0")!.height > 16);
});

test("what is chosen in a collapsed group expands it", async () => {
  const page = await show({}, "#t=0,1000000&fold=d0");
  assert.equal((await rowOf(page, "s0")).height, 0);
  await choose(page, "call", 0);
  await page.click("text=submitted copy #1 on stream 1");
  assert.ok((await rowOf(page, "s0")).height > 0);
});
