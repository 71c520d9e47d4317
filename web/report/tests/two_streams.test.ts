// The report of examples/c/two_streams as ropeway trace wrote it: REPORT says where it is.

import assert from "node:assert/strict";
import { test } from "node:test";
import { launch, open, stop, visible } from "./browser.ts";

const cars = 12;

test("the report of two_streams", { skip: process.env.REPORT ? false : "REPORT names no report" }, async () => {
  const browser = await launch();
  try {
    const { page, errors, requests } = await open(browser, process.env.REPORT!);
    const v = await visible(page);
    const streams = v.rows.filter((r) => r.kind === "stream");
    const tasks = (category: string) => streams.map((r) => r.bars.filter((b) => b.category === category).reduce((n, b) => n + b.count, 0));
    const all = streams.map((r) => r.bars.reduce((n, b) => n + b.count, 0));
    assert.equal(streams.length, 2, "two streams");
    assert.deepEqual(v.rows.filter((r) => r.kind === "engine").map((r) => [r.name, r.bars.reduce((n, b) => n + b.count, 0)]), [["H2D", cars], ["D2H", cars]]);
    assert.ok(all.every((n) => n >= 3 * cars - 2), `a copy, a record and a wait for each car, not ${all}`);
    assert.ok(tasks("h2d")[1] === 0 && tasks("d2h")[0] === 0, "one stream takes them up, the other down");
    const events = v.arrows.filter((a) => a.kind === "event");
    assert.ok(events.length >= 2 * cars - 2, `an arrow for each event that was waited for, not ${events.length}`);
    assert.ok(v.arrows.filter((a) => a.kind === "submit").length >= 6 * cars - 2, "an arrow for each task");
    assert.equal(v.rows.filter((r) => r.kind === "thread").length, 1);

    assert.ok((await page.innerText("#panel-advice")).length > 20, "advice, if only that there is none");
    const copies = page.locator("#calls tr:has-text('aclrtMemcpyAsync') td");
    assert.equal(await copies.first().innerText(), String(2 * cars));
    assert.match(await page.innerText(".summary"), /6 MiB/);
    await page.fill("#search", "d2h");
    assert.equal((await page.evaluate(() => window.ropeway.matches())).tasks, cars);
    assert.deepEqual([errors, requests], [[], []]);
  } finally {
    await stop(browser);
  }
});
