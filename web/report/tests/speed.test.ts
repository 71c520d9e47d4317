// A page with 100,000 tasks: how long it takes to be there and how many frames a second it pans with. The numbers are
// printed, beside the processor time that the page used, which says more where others work too; only a page that hangs fails.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import type { Browser } from "playwright-core";
import { launch, open, stop, visible, write } from "./browser.ts";
import { large } from "./sample.ts";

let browser: Browser;
before(async () => {
  browser = await launch();
});
after(() => stop(browser));

test("100,000 tasks load, zoom and pan", { timeout: 300_000 }, async (t) => {
  const data = large(100_000);
  const { page, errors } = await open(browser, write("large", data, true));
  const loaded = await page.evaluate(() => window.ropeway.loaded);
  const session = await page.context().newCDPSession(page);
  await session.send("Performance.enable", { timeDomain: "threadTicks" });
  const used = async () => (await session.send("Performance.getMetrics")).metrics.find((m) => m.name === "TaskDuration")!.value * 1000;
  const all = await visible(page);
  const bars = all.rows.filter((r) => r.kind === "stream").flatMap((r) => r.bars);
  assert.equal(bars.reduce((n, b) => n + b.count, 0), 100_000, "every task is in a bar or merged into one");
  assert.ok(bars.length < 8 * 1400, "bars below a pixel are merged");

  const pan = (): Promise<{ fps: number; frames: number; slowest: number }> => page.evaluate(() => new Promise((done) => {
    const scroller = document.querySelector(".scroller")!;
    const times: number[] = [];
    const begun = performance.now();
    const first = window.ropeway.frames();
    let by = 12;
    const step = () => {
      const now = performance.now();
      times.push(now);
      if (now - begun > 2000) {
        const gaps = times.slice(1).map((t, i) => t - times[i]).sort((a, b) => a - b);
        const frames = window.ropeway.frames() - first;
        done({ frames, fps: (frames * 1000) / (now - begun), slowest: gaps[Math.floor(gaps.length * 0.95)] });
        return;
      }
      if (times.length % 40 === 0) by = -by;
      scroller.dispatchEvent(new WheelEvent("wheel", { deltaX: by, bubbles: true, cancelable: true }));
      requestAnimationFrame(step);
    };
    requestAnimationFrame(step);
  }));
  t.diagnostic(`loaded in ${(loaded / 1000).toFixed(2)} s`);
  await page.focus(".scroller");
  for (const [what, zooms] of [["everything", 1], ["a tenth", 4], ["a hundredth", 5]] as const) {
    for (let i = 0; i < zooms; i++) await page.keyboard.press("+");
    const begun = await used();
    const { fps, frames, slowest } = await pan();
    const each = ((await used()) - begun) / frames;
    t.diagnostic(`panning with ${what} in sight: ${fps.toFixed(0)} frames a second, 95% within ${slowest.toFixed(0)} ms; ${each.toFixed(1)} ms of processor time each`);
    assert.ok(fps > 2, "it hangs");
  }
  await page.fill("#search", "d2h");
  assert.ok((await page.evaluate(() => window.ropeway.matches())).tasks > 10_000);
  assert.ok(loaded < 60_000, "it hangs");
  assert.deepEqual(errors, []);
});
