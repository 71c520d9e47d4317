// A run of a model opens into its tasks: rows of bars, and a table of them.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import type { Browser } from "playwright-core";
import { launch, matches, open, row, selected, stop, where, write } from "./browser.ts";
import { captured, timed } from "./sample.ts";

let browser: Browser;
before(async () => { browser = await launch(); });
after(() => stop(browser));

for (const [name, options] of Object.entries({
  light: {}, dark: { colorScheme: "dark" as const }, phone: { viewport: { width: 390, height: 800 }, hasTouch: true, isMobile: true },
})) {
  test(`a run opens into its tasks, ${name}`, async () => {
    const { page, errors, requests } = await open(browser, write("timed-" + name, timed()), options);
    await page.locator(".scroller").scrollIntoViewIfNeeded();
    const at = await where(page, "task", 0);
    await page.mouse.click(at.x, at.y);
    const inside = page.locator("#panel-details figure.inside");
    assert.deepEqual(await inside.locator(".lane .name").allTextContents(), ["stream 1", "stream 2"]);
    const rows = inside.locator(".lane");
    assert.equal(await rows.nth(0).locator(".bar").count(), 4);
    assert.equal(await rows.nth(1).locator(".bar").count(), 3);
    const copies = rows.nth(1).locator(".bar").nth(1);
    assert.match(await copies.getAttribute("title") ?? "", /^3,000 × H2D copy, 2.93 MiB, 558 µs, 2 µs after the run began$/);
    const track = (await rows.nth(1).locator(".track").boundingBox())!;
    const box = (await copies.boundingBox())!;
    assert.ok(Math.abs((box.x - track.x) / track.width - 2 / 760) < 0.01, "the bar begins when its piece does");
    assert.ok(Math.abs(box.width / track.width - 558 / 760) < 0.01, "the bar is as long as its piece");
    assert.match(await inside.locator("figcaption").innerText(), /one time, that of their piece/);
    assert.equal(await inside.locator("tbody tr").count(), 7);
    await copies.click();
    assert.equal(await copies.getAttribute("aria-pressed"), "true");
    assert.equal((await inside.locator("tbody tr").innerText()).replaceAll(/\s+/g, " "), "3,000 × H2D copy 2 µs 558 µs 2.93 MiB stream 2 2 to 3001 5");
    await copies.click();
    assert.equal(await inside.locator("tbody tr").count(), 7);
    assert.match(await page.locator(".summary").innerText(), /Moved\s+2\.93 MiB\s+H2D 2\.93 MiB\s*D2H 4 KiB/);
    assert.match(await page.locator(".summary").innerText(), /Copies\s+3,001\s+3,001 in models; 1 task in 1 stream/);
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), "the page is wider than the screen");
    assert.match(await page.locator("#sizes").innerText(), /3,000/);
    assert.match((await page.locator("#sizes tbody").innerText()).replaceAll(/\s+/g, " "), /H2D in models 3,000 2.93 MiB 5.51 GB\/s D2H in models 1 4 KiB 20.7 MB\/s/);
    if (process.env.PICTURES) await page.screenshot({ path: `${process.env.PICTURES}/inside-${name}.png` });
    assert.deepEqual(errors, []);
    assert.deepEqual(requests, []);
    await page.context().close();
  });
}

test("what runs inside a model has bars, rows of engines and cores, buttons, and is found", async () => {
  const data = timed();
  data.cores = { task: [0], core: [3], first: [0], blocks: [8], kernel: ["add"], start: [50_000], end: [290_000] };
  const { page, errors } = await open(browser, write("timed-rows", data));
  // The task, then what shares a time, as it began: records and waits are the others.
  const [run, kernel, copies, wait, out] = [0, 3, 4, 5, 7];
  const stream = await row(page, "Stream 1");
  assert.deepEqual(stream.map((b) => [b.index, b.category]), [
    [run, "model"], [1, "event"], [kernel, "kernel"], [wait, "event"], [out, "d2h"], [2, "event"], [copies, "h2d"], [6, "event"],
  ]);
  assert.deepEqual((await row(page, "H2D")).map((b) => b.index), [copies]);
  assert.deepEqual((await row(page, "D2H")).map((b) => b.index), [out]);
  assert.deepEqual((await row(page, "Core 3")).map((b) => [b.index, b.category]), [[kernel, "kernel"]]);
  assert.deepEqual(await page.locator(".chip[data-category]").evaluateAll((all) => all.map((e) => e.getAttribute("data-category"))), ["h2d", "d2h", "event", "kernel", "model"]);
  assert.match(await page.innerText(".found"), /^1 task, 7 parts of models, 1 call/);

  for (const [words, hits] of [["add", [kernel]], ["kernel", [kernel]], ["d2h", [out]], ['"host to device"', [copies]], ["stream2", [2, copies, 6]]] as const) {
    await page.fill("#search", words);
    assert.equal((await matches(page)).inside, hits.length, words);
    assert.deepEqual((await row(page, "Stream 1")).filter((b) => b.matches).map((b) => b.index), hits, words);
  }
  await page.fill("#search", "add");
  assert.match(await page.innerText(".found"), /^0 of 1 task, 1 of 7 parts of models, 1 of 1 call/);
  await page.press("#search", "Enter");
  assert.deepEqual(await selected(page), { of: "task", index: kernel });
  const details = (await page.innerText("#panel-details")).replaceAll(/\s+/g, " ");
  for (const text of ["add in model 7 #1 on stream 1", "blocks 8", "ran 259 µs", "captured from stream 1", "core 3 8 blocks from block 0 on, 240 µs"]) {
    assert.ok(details.includes(text), `${text} is not in ${details}`);
  }
  await page.click("text=part of model 7 #1 on stream 1");
  assert.deepEqual(await selected(page), { of: "task", index: run });
  await page.fill("#search", "");
  await page.click("[data-category=kernel]");
  assert.deepEqual((await row(page, "Stream 1")).filter((b) => !b.matches).map((b) => b.index), [kernel]);
  await page.click("[data-category=kernel]");

  assert.match((await page.innerText(".summary")).replaceAll(/\s+/g, " "), /Kernels 1 launch 259 µs in all/);
  assert.equal((await page.locator("#kernels tbody tr").innerText()).replaceAll(/\s+/g, " "), "add 1 259 µs 259 µs");
  await page.click("#kernels >> text=add");
  assert.equal((await matches(page)).inside, 1);
  const colours = await page.evaluate(() => {
    const c = document.querySelector<HTMLCanvasElement>(".overview canvas")!;
    const g = c.getContext("2d")!;
    return [[100_000, 0.3], [350_000, 0.9], [700_000, 0.9]].map(([t, y]) => [...g.getImageData((t / 1e6) * c.width, y * c.height, 1, 1).data].slice(0, 3).join());
  });
  assert.deepEqual(colours, ["47,143,131", "0,114,178", "217,115,13"], "a kernel above copies to the device, these alone, copies back");
  assert.deepEqual(errors, []);
  await page.context().close();
});

test("a run without times inside says so", async () => {
  const { page, errors } = await open(browser, write("untimed", captured()), {});
  const at = await where(page, "task", 0);
  await page.mouse.click(at.x, at.y);
  const inside = page.locator("#panel-details figure.inside");
  assert.match(await inside.locator("figcaption").innerText(), /No times were taken inside this run/);
  assert.equal(await inside.locator(".lane").count(), 2);
  assert.match(await page.locator(".summary").innerText(), /Copies\s+3,001/);
  assert.match((await page.innerText(".summary")).replaceAll(/\s+/g, " "), /Kernels 1 launch in models, without times of their own/);
  await page.fill("#search", "add");
  assert.equal((await matches(page)).inside, 1);
  assert.deepEqual(errors, []);
  await page.context().close();
});

test("a range counts the copies of models that lie in it", async () => {
  const { page, errors } = await open(browser, write("timed-range", timed()), {}, "#t=0,1000000&range=321000,900000");
  const text = (await page.innerText("#panel-details")).replaceAll("\n", " ");
  for (const part of ["tasks 1, 3,001 copies among them", "H2D 1.46 MiB", "D2H 4 KiB", "copying 477 µs"]) assert.ok(text.includes(part), `${part} is not in ${text}`);
  assert.deepEqual(errors, []);
  await page.context().close();
});

test("a run with thousands of parts has a bounded number of bars and lines", async () => {
  const data = timed(0);
  const m = data.models[0];
  const n = 5000;
  for (let i = 0; i < n; i++) {
    m.stream.push(0);
    m.kind.push(0);
    m.direction.push(1 + (i % 3));
    m.bytes.push(8);
    m.after.push(-1);
    m.kernel.push("");
    m.segments.push(0);
    m.piece!.push(7 + i);
    data.parts!.task.push(0);
    data.parts!.model.push(0);
    data.parts!.first.push(7 + i);
    data.parts!.count.push(1);
    data.parts!.start.push(100_000 + i * 100);
    data.parts!.end.push(100_100 + i * 100);
  }
  m.tasks += n;
  const { page, errors } = await open(browser, write("timed-large", data), {});
  const at = await where(page, "task", 0);
  await page.mouse.click(at.x, at.y);
  const inside = page.locator("#panel-details figure.inside");
  assert.ok(await inside.locator(".bar").count() <= 310, `${await inside.locator(".bar").count()} bars`);
  assert.equal(await inside.locator("tbody tr").count(), 100);
  assert.match(await inside.innerText(), /and 4,906 lines more/);
  assert.deepEqual(errors, []);
  await page.context().close();
});
