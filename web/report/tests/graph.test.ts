// A model on the page: its run is one bar, which opens into its graph.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import type { Browser } from "playwright-core";
import { boxes } from "../src/boxes.ts";
import { launch, open, stop, where, write } from "./browser.ts";
import { captured } from "./sample.ts";

let browser: Browser;
before(async () => { browser = await launch(); });
after(() => stop(browser));

test("tasks that do the same are one box, and boxes come after what they wait for", () => {
  const list = boxes(captured().models[0]);
  assert.deepEqual(list.map((b) => [b.stream, b.count, b.bytes, b.layer]), [
    [0, 1, 0, 0], [1, 1, 0, 1], [1, 3000, 3000 * 1024, 2], [0, 1, 0, 1], [1, 1, 0, 3], [0, 1, 0, 4], [0, 1, 4096, 5],
  ]);
  assert.deepEqual(list.map((b) => b.after), [[], [0], [], [], [], [4], []]);
});

for (const [name, options] of Object.entries({
  light: {}, dark: { colorScheme: "dark" as const }, phone: { viewport: { width: 390, height: 800 }, hasTouch: true, isMobile: true },
})) {
  test(`the graph of a model, ${name}`, async () => {
    const { page, errors, requests } = await open(browser, write("captured-" + name, captured()), options);
    await page.locator(".scroller").scrollIntoViewIfNeeded();
    const at = await where(page, "task", 0);
    await page.mouse.click(at.x, at.y);
    const panel = page.locator("#panel-details");
    assert.match(await panel.locator("h3").innerText(), /model 7 #1 on stream 1/);
    const svg = panel.locator("svg.graph");
    assert.equal(await svg.locator(".box").count(), 7);
    assert.match(await page.locator(".summary").innerText(), /Moved\s+2\.93 MiB/);
    const { width, height } = (await svg.boundingBox())!;
    assert.deepEqual([Math.round(width), Math.round(height)], [6 * 130 - 26 + 2, 2 * 58 + 2]);
    assert.equal(await svg.locator("path.event").count(), 2);
    assert.equal(await svg.locator("path.order").count(), 5);
    assert.deepEqual(await svg.locator(".box title").allTextContents(), [
      "record", "wait", "3,000 × H2D copy, 2.93 MiB", "add", "record", "wait", "D2H copy, 4 KiB",
    ]);
    assert.match(await svg.getAttribute("aria-label") ?? "", /model 7: 3,006 tasks on 2 streams/);
    const wide = await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth);
    assert.ok(wide, "the page is wider than the screen");
    if (process.env.PICTURES) await page.screenshot({ path: `${process.env.PICTURES}/graph-${name}.png` });
    assert.deepEqual(errors, []);
    assert.deepEqual(requests, []);
    await page.context().close();
  });
}
