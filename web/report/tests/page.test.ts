// The page, used the way people do, with a run in which every bar is known.

import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { after, afterEach, before, test } from "node:test";
import type { Browser, Page } from "playwright-core";
import { launch, matches, open, row, selected, stop, visible, where, write, type Opened } from "./browser.ts";
import { NONE } from "../src/data.ts";
import { known, Run } from "./sample.ts";

let browser: Browser;
let file: string;
let opened: Opened | null = null;

before(async () => {
  browser = await launch();
  file = write("known", known());
});
after(() => stop(browser));
afterEach(async () => {
  if (!opened) return;
  assert.deepEqual(opened.errors, [], "errors in the page");
  assert.deepEqual(opened.requests, [], "the page asked for something from elsewhere");
  await opened.page.context().close();
  opened = null;
});

async function show(options = {}, path = file, hash = ""): Promise<Page> {
  opened = await open(browser, path, options, hash);
  return opened.page;
}

const indexes = (bars: { index: number }[]) => bars.map((b) => b.index);

test("rows and bars are those of the run", async () => {
  const page = await show();
  const v = await visible(page);
  assert.deepEqual(v.rows.map((r) => r.name), [
    "Findings", "Host threads", "two", "Device 0: streams", "Stream 1", "Stream 2", "No stream", "Device 0: copy engines", "H2D", "D2H",
  ]);
  assert.deepEqual(indexes(await row(page, "two")), [0, 1, 2, 3, 4, 5, 6, 7, 8]);
  assert.deepEqual((await row(page, "Stream 1")).map((b) => [b.index, b.category]), [[0, "h2d"], [1, "event"], [4, "h2d"]]);
  assert.deepEqual((await row(page, "Stream 2")).map((b) => [b.index, b.category]), [[2, "event"], [3, "d2h"], [5, "d2h"]]);
  assert.deepEqual(indexes(await row(page, "No stream")), [6]);
  assert.deepEqual(indexes(await row(page, "H2D")), [0, 4, 6]);
  assert.deepEqual(indexes(await row(page, "D2H")), [3, 5]);
  const [copy, , pageable] = await row(page, "Stream 1"); // 300 µs from 30 µs on, and 185 µs from 510 µs on
  assert.ok(Math.abs(copy.width / pageable.width - 300 / 185) < 0.01);
  assert.ok(Math.abs((pageable.x - copy.x) / copy.width - 480 / 300) < 0.01);
});

test("arrows go from the call to the task, and from the record to the wait", async () => {
  const page = await show();
  const { arrows } = await visible(page);
  assert.deepEqual(arrows.filter((a) => a.kind === "event").map((a) => [a.from, a.to]), [[1, 2]]);
  assert.deepEqual(arrows.filter((a) => a.kind === "submit").map((a) => [a.from, a.to]), [[0, 0], [1, 1], [2, 2], [3, 3], [5, 4], [6, 5]]); // the last copy is carried out in its call, above it
  await page.click("text=Arrows");
  assert.equal((await visible(page)).arrows.length, 0);
  const at = await where(page, "task", 2);
  await page.mouse.click(at.x, at.y);
  assert.deepEqual((await visible(page)).arrows.map((a) => [a.kind, a.from, a.to]), [["submit", 2, 2], ["event", 1, 2]]);
});

test("a copy that its call carries out itself has an arrow only when one of them is selected", async () => {
  const run = new Run();
  for (let i = 0; i < 48; i++) {
    const t = 100_000 + i * 10_000;
    run.task({ call: run.call(4, t, t + 9000), stream: NONE, bytes: 4096, submit: t + 100, start: t + 200, end: t + 8900 });
  }
  const page = await show({}, write("own", run.finish()));
  assert.deepEqual((await visible(page)).arrows, []);
  assert.ok(!(await visible(page)).arrowsLeft);
  const at = await where(page, "task", 20);
  await page.mouse.click(at.x, at.y);
  await page.mouse.move(2, 2);
  assert.deepEqual((await visible(page)).arrows.map((a) => [a.kind, a.from, a.to]), [["submit", 20, 20]]);
});

test("zoom keeps the time under the pointer, and Fit shows everything again", async () => {
  const page = await show();
  const at = await where(page, "task", 3);
  await page.mouse.move(at.x, at.y);
  await page.keyboard.down("Control");
  await page.mouse.wheel(0, -600);
  await page.keyboard.up("Control");
  await page.waitForFunction(() => window.ropeway.visible().to - window.ropeway.visible().from < 500_000);
  const still = await where(page, "task", 3);
  assert.ok(Math.abs(still.x - at.x) < 1.5, `${still.x} is not ${at.x}`);
  assert.deepEqual(indexes(await row(page, "No stream")), []);
  await page.click(".zoom >> text=Fit");
  const v = await visible(page);
  assert.ok(v.from <= 0 && v.to >= v.duration);
});

test("W and S zoom without a click before: at the pointer, else at the selection, else in the middle", async () => {
  const page = await show();
  const middle = (v: { from: number; to: number }) => (v.from + v.to) / 2;
  const all = await visible(page);
  await page.keyboard.press("w");
  const near = await visible(page);
  assert.ok(near.to - near.from < 0.7 * (all.to - all.from), "W zooms");
  assert.ok(Math.abs(middle(near) - middle(all)) < 1, "in the middle");
  await page.keyboard.press("s");
  const at = await where(page, "task", 3);
  await page.mouse.move(at.x, at.y);
  await page.keyboard.press("w");
  await page.keyboard.press("w");
  assert.ok(Math.abs((await where(page, "task", 3)).x - at.x) < 1.5, "at the pointer");
  await page.keyboard.press("0");
  const chosen = await where(page, "task", 5); // a bar of 10 µs at 730 µs
  await page.mouse.click(chosen.x, chosen.y);
  await page.mouse.move(2, 2);
  for (let i = 0; i < 6; i++) await page.keyboard.press("w");
  assert.ok(Math.abs((await where(page, "task", 5)).x - chosen.x) < 1.5, "at the selection");
  await page.focus("#search");
  const before = await visible(page);
  await page.keyboard.press("w"); // a letter
  assert.deepEqual([(await visible(page)).from, (await visible(page)).to], [before.from, before.to]);
});

test("a drag pans, a drag with Shift selects a range and measures it", async () => {
  const page = await show();
  await page.focus(".scroller");
  for (let i = 0; i < 3; i++) await page.keyboard.press("+");
  const before = await visible(page);
  const box = (await page.locator(".scroller").boundingBox())!;
  const drag = async () => {
    await page.mouse.move(box.x + 600, box.y + 60);
    await page.mouse.down();
    await page.mouse.move(box.x + 500, box.y + 60, { steps: 5 });
    await page.mouse.up();
  };
  await drag();
  const after = await visible(page);
  assert.ok(after.from > before.from);
  assert.ok(Math.abs(after.to - after.from - (before.to - before.from)) < 1);
  await page.keyboard.down("Shift");
  await drag();
  await page.keyboard.up("Shift");
  assert.deepEqual(await visible(page), await visible(page), "a range does not move the view");
  const marked = (await visible(page)).range!;
  assert.ok(marked[0] > after.from && marked[1] < after.to);
  await page.keyboard.press("f");
  const range = await visible(page);
  assert.ok(Math.abs(range.from - marked[0]) < 1 && Math.abs(range.to - marked[1]) < 1, "F shows the range");
  await page.keyboard.press("Escape");
  assert.equal((await visible(page)).range, null);
});

test("a range says how much was moved in it and how long the host waited", async () => {
  const page = await show({}, file, "#t=0,1000000&range=100000,400000"); // 230 of 300 µs of the first copy, 64 of 100 µs of the second
  const text = (await page.innerText("#panel-details")).replaceAll("\n", " ");
  for (const part of ["Selected range", "length 300 µs", "tasks 4, 2 copies among them", "H2D 3.07 MiB", "D2H 655 KiB", "copying 294 µs (98%)", "calls 1", "host waited 300 µs"]) {
    assert.ok(text.includes(part), `${part} is not in ${text}`);
  }
  await page.click("[data-category=d2h]"); // only what matches
  assert.ok(!(await page.innerText("#panel-details")).includes("D2H"));
});

test("a host wait says what it waited for, and leads there and back", async () => {
  const page = await show();
  const at = await where(page, "call", 4);
  await page.mouse.move(at.x, at.y);
  assert.ok((await page.innerText(".tip")).includes("copy #4 on stream 2"));
  await page.mouse.click(at.x, at.y);
  assert.deepEqual((await visible(page)).arrows.filter((a) => a.kind === "wait").map((a) => [a.from, a.to, a.strong]), [[3, 4, true]]);
  await page.click("text=waited for copy #4 on stream 2");
  assert.deepEqual(await selected(page), { of: "task", index: 3 });
  await page.click("text=awaited by aclrtSynchronizeStream");
  assert.deepEqual(await selected(page), { of: "call", index: 4 });
});

/** short is a run in which the work is a fiftieth. */
function short() {
  const data = known();
  data.duration = 50_000_000;
  return write("short", data);
}

test("the first view is the work, and the whole run is a key away", async () => {
  const page = await show({}, short());
  const work = await visible(page);
  assert.ok(work.from <= 10_000 && work.from > -100_000 && work.to >= 850_000 && work.to < 1_000_000, `${work.from} to ${work.to}`);
  await page.focus(".scroller");
  await page.keyboard.press("9");
  const all = await visible(page);
  assert.ok(all.from <= 0 && all.to >= 50_000_000);
  await page.keyboard.press("0");
  assert.deepEqual((await visible(page)).to, work.to);
  assert.ok((await page.locator(".overview .idle").last().boundingBox())!.width > 500, "what has no work is marked");
});

test("a finding shows both of its ends", async () => {
  const data = known();
  data.duration = 50_000_000;
  data.findings[0].time = 40_000_000; // found long after the copies
  const page = await show({}, write("late", data));
  await page.click("text=Show it on the timeline");
  const v = await visible(page);
  assert.ok(v.from <= 10_000 && v.to >= 40_000_000, `${v.from} to ${v.to}`);
  assert.deepEqual((await row(page, "two")).filter((b) => b.matches && b.of === "call").flatMap((b) => b.index), [0]);
  assert.deepEqual(await selected(page), { of: "finding", index: 0 });
});

test("the card of a finding has its lines and what to do, and its report is not cut off", async () => {
  const data = known();
  data.findings[0].report = "stream-race: " + "long ".repeat(100);
  const page = await show({}, write("card", data));
  const card = page.locator("[data-finding]");
  for (const part of ["two.c:17 in main", "two.c:21 in main", "Record an event after the first task"]) assert.ok((await card.innerText()).includes(part), part);
  await card.locator("summary").click();
  assert.ok(await card.locator("pre").evaluate((e) => e.scrollWidth <= e.clientWidth));
  assert.match(await page.innerText(".summary"), /Findings\s+1\s+1 error/);
});

test("Escape in the search clears the filter with the words", async () => {
  const page = await show();
  await page.fill("#search", "d2h");
  await page.press("#search", "Escape");
  assert.equal(await page.inputValue("#search"), "");
  assert.ok((await matches(page)).all);
});

test("screen readers hear how much a search finds, and that it is over", async () => {
  const page = await show();
  const heard = () => page.locator("[role=status]").innerText();
  await page.fill("#search", "nothing like it");
  assert.equal(await heard(), "0 of 7 tasks, 0 of 9 calls");
  await page.fill("#search", "");
  assert.equal(await heard(), "7 tasks, 9 calls");
});

test("the tip goes with what it was about", async () => {
  const page = await show();
  const at = await where(page, "task", 5); // 10 µs, at 730 µs
  await page.mouse.move(at.x, at.y);
  assert.ok(await page.locator(".tip").isVisible());
  await page.focus(".scroller");
  await page.keyboard.press("Home");
  for (let i = 0; i < 12; i++) await page.keyboard.press("+");
  assert.ok(await page.locator(".tip").isHidden());
});

test("times on the axis do not touch, at any zoom", async () => {
  const page = await show();
  for (const span of [1_000_000, 20_000, 300, 20]) {
    await page.evaluate((s) => (location.hash = `t=735000,${735000 + s}`), span);
    await page.waitForFunction((s) => Math.abs(window.ropeway.visible().to - window.ropeway.visible().from - s) < s * 0.2 + 1, span);
    const labels = await page.evaluate(() => window.ropeway.axis());
    assert.ok(labels.length >= 1, `no time on the axis of ${span} ns`);
    for (let i = 1; i < labels.length; i++) assert.ok(labels[i].x - (labels[i - 1].x + labels[i - 1].width) > 6, `${JSON.stringify(labels)} at ${span} ns`);
  }
});

test("the address keeps the view, the selection, the range and the search", async () => {
  const page = await show();
  await page.fill("#search", "d2h stream2");
  await page.press("#search", "Enter");
  await page.focus(".scroller");
  await page.keyboard.press("w");
  await page.waitForFunction(() => {
    const v = window.ropeway.visible();
    return location.hash === `#t=${Math.round(v.from)},${Math.round(v.to)}&sel=task:3&q=d2h%20stream2`;
  });
  const [hash, before] = [await page.evaluate(() => location.hash), await visible(page)];
  await opened!.page.context().close();
  const again = await show({}, file, hash);
  const v = await visible(again);
  assert.ok(Math.abs(v.from - before.from) <= 1 && Math.abs(v.to - before.to) <= 1);
  assert.deepEqual(await selected(again), { of: "task", index: 3 });
  assert.equal(await again.inputValue("#search"), "d2h stream2");
  for (const nonsense of ["#t=x", "#t=5,1", "#t=0,NaN&sel=task:99", "#t=0,1000&sel=fish:1", "#timeline"]) {
    await opened!.page.context().close();
    await show({}, file, nonsense);
  }
});

test("names get the room that they need, and more by hand", async () => {
  const data = known();
  data.threads[0].name = "prefill-worker-of-the-first-group";
  const page = await show({ viewport: { width: 1600, height: 900 } }, write("names", data));
  const gutter = () => page.evaluate(() => window.ropeway.visible().gutter);
  const first = await gutter();
  assert.ok(first > 200 && first <= 320, String(first));
  const box = (await page.locator(".scroller canvas").boundingBox())!;
  await page.mouse.move(box.x + first, box.y + 60);
  await page.mouse.down();
  await page.mouse.move(box.x + first + 90, box.y + 60, { steps: 4 });
  await page.mouse.up();
  assert.ok(Math.abs((await gutter()) - first - 90) < 3);
  await page.mouse.dblclick(box.x + first + 90, box.y + 60);
  assert.equal(await gutter(), first);
});

test("the page uses the width of a large screen", async () => {
  const page = await show({ viewport: { width: 2560, height: 1300 } });
  const width = await page.locator("#timeline").evaluate((e) => e.getBoundingClientRect().width);
  assert.ok(width > 1900, String(width));
});

test("the pointer shows what is under it, a click pins it", async () => {
  const page = await show();
  const at = await where(page, "task", 4);
  await page.mouse.move(at.x, at.y);
  const tip = await page.innerText(".tip");
  for (const text of ["copy #5 on stream 1", "host to device", "1 MiB", "185 µs", "pageable", "5.67 GB/s"]) assert.ok(tip.includes(text), `${text} is not in ${tip}`);
  await page.mouse.click(at.x, at.y);
  await page.mouse.move(2, 2);
  assert.ok(await page.locator(".tip").isHidden());
  assert.deepEqual(await selected(page), { of: "task", index: 4 });
  const details = await page.innerText("#panel-details");
  for (const text of ["copy #5 on stream 1", "submitted by aclrtMemcpyAsync", "in the queue", "5 µs"]) assert.ok(details.includes(text), `${text} is not in ${details}`);
  await page.click("text=submitted by aclrtMemcpyAsync");
  assert.deepEqual(await selected(page), { of: "call", index: 5 });
  assert.ok((await page.innerText("#panel-details")).includes("190 µs (95%)"));
});

test("a failed task says so", async () => {
  const page = await show();
  const at = await where(page, "task", 5);
  await page.mouse.click(at.x, at.y);
  assert.ok((await page.innerText("#panel-details")).includes("failed with code 507015"));
});

test("the search finds by kind, direction, memory, function, stream, thread and number", async () => {
  const page = await show();
  for (const [words, tasks] of [
    ["h2d", 3], ['"device to host"', 2], ["pageable", 2], ["pageable stream1", 1], ["wait", 1], ["#4", 1], ["memcpyasync d2h", 2], ["failed", 1],
    ["two", 7], ["nothing like it", 0],
  ] as const) {
    await page.fill("#search", words);
    assert.equal((await matches(page)).tasks, tasks, words);
  }
  await page.fill("#search", "synchronize");
  assert.deepEqual(await matches(page), { tasks: 0, inside: 0, calls: 2, all: false });
  await page.fill("#search", "d2h");
  await page.press("#search", "Enter");
  assert.deepEqual(await selected(page), { of: "task", index: 3 });
  await page.press("#search", "Enter");
  assert.deepEqual(await selected(page), { of: "task", index: 5 });
  await page.press("#search", "Shift+Enter");
  assert.deepEqual(await selected(page), { of: "task", index: 3 });
  assert.deepEqual((await row(page, "Stream 1")).map((b) => b.matches), [false, false, false]);
  assert.deepEqual((await row(page, "Stream 2")).map((b) => b.matches), [false, true, true]);
});

test("filters by function, stream, size, duration, failure and direction", async () => {
  const page = await show();
  await page.click("text=Filters");
  const clear = () => page.click("text=Clear");
  const expect = async (tasks: number, what: string) => {
    assert.equal((await matches(page)).tasks, tasks, what);
    await clear();
    assert.ok((await matches(page)).all);
  };
  await page.selectOption("[name=function]", { label: "aclrtMemcpy" });
  await expect(1, "function");
  await page.selectOption("[name=stream]", { label: "stream 2" });
  await expect(3, "stream");
  await page.selectOption("[name=stream]", { label: "no stream (in the call)" });
  await expect(1, "no stream");
  await page.fill("[name=minBytes]", "64K");
  await page.fill("[name=maxBytes]", "1 MiB");
  await expect(3, "size");
  await page.fill("[name=minTime]", "150us");
  await page.fill("[name=maxTime]", "0.3 ms");
  await expect(2, "duration");
  await page.check("[name=failed]");
  await expect(1, "failed");
  await page.click("[data-category=h2d]");
  assert.equal(await page.getAttribute("[data-category=h2d]", "aria-pressed"), "false");
  await expect(4, "direction");
  await page.fill("[name=minBytes]", "many");
  assert.equal(await page.getAttribute("[name=minBytes]", "aria-invalid"), "true");
});

test("advice has its numbers, and shows its tasks", async () => {
  const page = await show();
  await page.click("#tab-advice");
  const text = await page.innerText("[data-rule=pageable]");
  for (const part of ["A copy waited because its memory is pageable", "saves up to 190 µs", "blocked", "190 µs"]) assert.ok(text.includes(part), part);
  await page.click("text=Show 1 task on the timeline");
  assert.deepEqual((await row(page, "Stream 1")).filter((b) => b.matches).map((b) => b.index), [4]);
  const v = await visible(page);
  assert.ok(v.from < 510_000 && v.from > 400_000 && v.to > 695_000 && v.to < 800_000);
  assert.equal(await page.getAttribute("[data-rule=pageable] button", "aria-pressed"), "true");
  await page.click("text=Clear");
  assert.ok((await matches(page)).all);
});

test("a finding is a mark with its text, and shows its tasks", async () => {
  const page = await show();
  assert.equal((await visible(page)).findings, 1);
  const at = await where(page, "finding", 0);
  await page.mouse.move(at.x, at.y);
  assert.ok((await page.innerText(".tip")).includes("two tasks write the same bytes"));
  await page.mouse.click(at.x, at.y);
  assert.deepEqual(await selected(page), { of: "finding", index: 0 });
  const panel = page.locator("#panel-findings");
  assert.ok((await panel.innerText()).includes("nothing orders them"));
  await panel.locator("summary").click();
  assert.ok((await panel.innerText()).includes("two.c:17 in main"));
  await panel.locator("button").click();
  assert.equal((await matches(page)).tasks, 2);
});

test("notes are shown", async () => {
  const page = await show();
  assert.ok((await page.innerText("#notes")).includes("the disk was full"));
});

test("calls are counted, and sorted by any column", async () => {
  const page = await show();
  const names = () => page.locator("#calls tbody th").allInnerTexts();
  assert.deepEqual(await names(), ["aclrtSynchronizeStream", "aclrtMemcpyAsync", "aclrtMemcpy", "aclrtRecordEvent", "aclrtStreamWaitEvent"]);
  await page.click("#calls thead >> text=Calls");
  assert.equal((await names())[0], "aclrtMemcpyAsync");
  await page.click("#calls thead >> text=Calls");
  assert.equal((await names()).at(-1), "aclrtMemcpyAsync");
  assert.equal(await page.getAttribute("#calls th:has-text('Calls')", "aria-sort"), "ascending");
  const cells = await page.locator("#calls tr:has-text('aclrtSynchronizeStream') td").allInnerTexts();
  assert.deepEqual(cells, ["2", "440 µs", "220 µs", "390 µs", "390 µs", "390 µs", "390 µs", "1"]);
  await page.click("#calls >> text=aclrtMemcpyAsync");
  assert.equal((await matches(page)).calls, 4);
});

test("sizes are counted, and a column is a filter", async () => {
  const page = await show();
  const labels = await page.locator(".column:not(:disabled)").evaluateAll((all) => all.map((e) => e.getAttribute("aria-label")));
  assert.deepEqual(labels, [
    "4 KiB to 8 KiB: 1 copy, 4 KiB, device to host", "64 KiB to 128 KiB: 1 copy, 64 KiB, host to device",
    "1 MiB to 2 MiB: 2 copies, 2 MiB (H2D 1, D2H 1)", "4 MiB to 8 MiB: 1 copy, 4 MiB, host to device",
  ]);
  await page.click(".column >> text=1M");
  assert.equal((await matches(page)).tasks, 2);
});

test("plots say how fast each direction was and how far the host ran ahead", async () => {
  const page = await show();
  const [speed, ahead] = await page.locator(".chart .legend").allInnerTexts();
  assert.match(speed, /H2D up to 1[34][\d.]* GB\/s/); // 4 MiB in 300 µs
  assert.match(speed, /D2H up to 10[\d.]* GB\/s/); // 1 MiB in 100 µs
  assert.match(ahead, /tasks up to 4/);
});

test("the highest bandwidth is that of the copies, however wide the page is", async () => {
  const data = known();
  data.duration = 50_000_000;
  for (const width of [1440, 390]) {
    const page = await show({ viewport: { width, height: 900 } }, write("wide", data), "#t=0,50000000"); // each copy is a pixel or less
    assert.match((await page.locator(".chart .legend").allInnerTexts())[0].replaceAll(/\s+/g, " "), /^H2D up to 14 GB\/s D2H up to 10\.5 GB\/s$/);
    await opened!.page.context().close();
  }
  opened = null;
});

test("copying is a share of the time that has tasks", async () => {
  const page = await show({}, short()); // copies of 522 µs in 839 µs of 50 ms
  assert.match((await page.innerText(".summary")).replaceAll(/\s+/g, " "), /Copying 7[0-9]% of the 8[0-9]{2} µs from first to last task/);
});

test("the keyboard reaches everything", async () => {
  const page = await show();
  await page.keyboard.press("/");
  assert.equal(await page.evaluate(() => document.activeElement?.id), "search");
  await page.keyboard.type("t"); // a letter, not the key for dark
  assert.equal(await page.inputValue("#search"), "t");
  await page.fill("#search", "");
  await page.keyboard.press("Escape");
  await page.keyboard.press("?");
  assert.ok(await page.locator("dialog").isVisible());
  await page.keyboard.press("Escape");
  assert.ok(await page.locator("dialog").isHidden());

  await page.focus(".scroller");
  const span = async () => { const v = await visible(page); return [v.from, v.to]; };
  const all = await span();
  await page.keyboard.press("+");
  const near = await span();
  assert.ok(near[1] - near[0] < all[1] - all[0]);
  await page.keyboard.press("ArrowRight");
  assert.ok((await span())[0] > near[0]);
  await page.keyboard.press("ArrowLeft");
  assert.ok(Math.abs((await span())[0] - near[0]) < 1);
  await page.keyboard.press("w");
  const nearer = await span();
  assert.ok(nearer[1] - nearer[0] < near[1] - near[0]);
  await page.keyboard.press("d");
  assert.ok((await span())[0] > nearer[0]);
  await page.keyboard.press("a");
  await page.keyboard.press("s");
  assert.ok(Math.abs((await span())[0] - near[0]) < 1 && Math.abs((await span())[1] - near[1]) < 1);
  await page.keyboard.press("-");
  await page.keyboard.press("0");
  assert.ok((await span())[0] <= 0);
  await page.keyboard.press("ArrowDown");
  assert.deepEqual(await selected(page), { of: "finding", index: 0 });
  await page.keyboard.press("ArrowDown");
  assert.equal((await selected(page))?.of, "call");
  await page.keyboard.press("ArrowDown");
  const first = await selected(page);
  assert.equal(first?.of, "task");
  await page.keyboard.press(".");
  assert.notDeepEqual(await selected(page), first);
  await page.keyboard.press(",");
  assert.deepEqual(await selected(page), first);
  assert.ok((await page.locator("[role=status]").innerText()).includes("on stream 1"));
  await page.keyboard.press("f");
  assert.ok((await span())[1] - (await span())[0] < 500_000);
  await page.keyboard.press("Escape");
  assert.equal(await selected(page), null);

  // Tab comes to the timeline, the panel and the table, and shows where it is.
  const stops = new Set<string>();
  await page.evaluate(() => { (document.activeElement as HTMLElement).blur(); scrollTo(0, 0); });
  for (let i = 0; i < 60; i++) {
    await page.keyboard.press("Tab");
    stops.add(await page.evaluate(() => { const e = document.activeElement!; return e.id || e.className || e.textContent!; }));
  }
  for (const stop of ["search", "scroller", "tab-details", "column", "theme"]) assert.ok(stops.has(stop), `${stop} is not among ${[...stops].join(", ")}`);
});

test("dark and light: the system's, and the other one", async () => {
  const page = await show({ colorScheme: "dark" });
  const back = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const bars = () => page.evaluate(() => {
    const c = document.querySelector<HTMLCanvasElement>(".scroller canvas")!;
    const at = window.ropeway.where("task", 0);
    const box = c.getBoundingClientRect();
    const k = c.width / box.width;
    return [...c.getContext("2d")!.getImageData((at.x - box.left) * k, (at.y - box.top - 5) * k, 1, 1).data].slice(0, 3).join();
  });
  assert.equal(await back(), "rgb(16, 20, 26)");
  assert.equal(await bars(), "60,155,224");
  await page.click("#theme");
  assert.equal(await back(), "rgb(245, 246, 248)");
  await page.waitForTimeout(100);
  assert.equal(await bars(), "0,114,178");
  await page.focus(".scroller");
  await page.keyboard.press("t");
  assert.equal(await back(), "rgb(16, 20, 26)");
});

test("at the width of a phone nothing is cut, and a finger pans, pinches and chooses", async () => {
  const page = await show({ viewport: { width: 360, height: 740 }, hasTouch: true, isMobile: true, deviceScaleFactor: 2 });
  assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), 360);
  const small = await page.locator("button:visible").evaluateAll((all) => all.map((e) => e.getBoundingClientRect()).filter((b) => b.height < 24).length);
  assert.equal(small, 0, "buttons too small for a finger");
  await page.locator(".scroller").scrollIntoViewIfNeeded();
  const at = await where(page, "task", 4);
  await page.touchscreen.tap(at.x, at.y);
  assert.deepEqual(await selected(page), { of: "task", index: 4 });
  const details = (await page.locator("#panel-details h3").boundingBox())!;
  assert.ok(details.y > 0 && details.y + details.height < 740, "the details are in sight");
  await page.waitForFunction(() => window.ropeway.where("task", 4).y < 400, null, { timeout: 5000 }); // and the bar is not under them
  at.y = (await where(page, "task", 4)).y;
  const pinch = await page.context().newCDPSession(page);
  const touch = (type: string, ...xs: number[]) =>
    pinch.send("Input.dispatchTouchEvent", { type: type as "touchStart", touchPoints: xs.map((x, id) => ({ x, y: at.y, id })) });
  await touch("touchStart", 150, 210);
  for (let d = 0; d <= 60; d += 20) await touch("touchMove", 150 - d, 210 + d);
  await touch("touchEnd");
  const v = await visible(page);
  assert.ok(v.to - v.from < 0.6 * v.duration, "a pinch zooms in");
});

test("large data comes compressed", async () => {
  const page = await show({}, write("packed", known(), true));
  assert.equal((await row(page, "Stream 1")).length, 3);
});

test("markup in a run stays text", async () => {
  const data = known();
  data.program = ["</script><img src=x onerror=alert(1)>"];
  data.findings[0].text = "<b>bold</b>";
  const page = await show({}, write("markup", data));
  assert.equal(await page.innerText("h1"), "'</script><img src=x onerror=alert(1)>'");
  assert.ok((await page.innerText("#panel-findings")).includes("<b>bold</b>"));
});

test("an empty run is a page too", async () => {
  const data = known();
  for (const table of [data.calls, data.tasks, data.edges, data.ranges] as unknown as Record<string, unknown[]>[]) for (const key of Object.keys(table)) table[key] = [];
  Object.assign(data, { findings: [], advice: [], stats: null, notes: null, processes: [], threads: [], streams: [], devices: [], duration: 0 });
  const page = await show({}, write("empty", data));
  assert.ok((await page.innerText("#calls")).includes("No call was recorded"));
});

/** headed is the page with more in its head, under another name. */
function headed(more: string): string {
  const path = file.replace(/\.html$/, "-headed.html");
  writeFileSync(path, readFileSync(file, "utf8").replace("<head>", "<head>\n" + more));
  return path;
}

test("the head says where to look first; the address goes before it", async () => {
  const path = headed('<meta name="ropeway-view" content="t=100000,400000">');
  let v = await visible(await show({}, path));
  assert.ok(Math.abs(v.from - 100000) < 1 && Math.abs(v.to - 400000) < 1, `${v.from} to ${v.to}`);
  await opened!.page.context().close();
  v = await visible(await show({}, path, "#t=0,500000"));
  assert.ok(Math.abs(v.from) < 1 && Math.abs(v.to - 500000) < 1, `${v.from} to ${v.to}`);
});

test("rules and functions link to the documentation where the head names it, and nowhere else", async () => {
  const links = (page: Page) => page.$$eval("#panel-findings h3 a, #panel-advice p a, #panel-details h3 a", (all) => all.map((a) => (a as HTMLAnchorElement).href));
  const call = "#t=0,1000000&sel=call:4";
  const page = await show({}, headed('<meta name="ropeway-docs" content="https://example.com/docs/">'), call);
  const all = await links(page);
  assert.ok(all.includes("https://example.com/docs/functions/aclrtSynchronizeStream.html"), all.join());
  assert.ok(all.includes("https://example.com/docs/docs/advice.html"), all.join());
  await opened!.page.context().close();
  assert.deepEqual(await links(await show({}, file, call)), []);
  await opened!.page.context().close();
  assert.deepEqual(await links(await show({}, headed('<meta name="ropeway-docs" content="javascript:alert(1)//">'), call)), []);
});

test("the page works in a frame that keeps it apart, where it has no address", async () => {
  const path = file.replace(/\.html$/, "-frame.html");
  const text = readFileSync(file, "utf8").replaceAll("&", "&amp;").replaceAll('"', "&quot;");
  writeFileSync(path, `<!doctype html><iframe sandbox="allow-scripts" style="width: 1200px; height: 800px" srcdoc="${text}"></iframe>`);
  const context = await browser.newContext();
  const page = await context.newPage();
  const errors: string[] = [];
  page.on("pageerror", (e) => errors.push(e.message));
  page.on("console", (m) => m.type() === "error" && errors.push(m.text()));
  await page.goto("file://" + path);
  const frame = page.frameLocator("iframe");
  await frame.locator(".timeline canvas").first().waitFor();
  await frame.locator(".zoom >> text=Fit").click();
  await page.waitForTimeout(600); // the address would have been written by now
  assert.deepEqual(errors, []);
  await context.close();
});
