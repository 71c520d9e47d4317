// Rows of cores: what each did of a kernel.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import type { Browser } from "playwright-core";
import { coreFields, coresOf } from "../src/cores.ts";
import { Kind } from "../src/data.ts";
import { build } from "../src/model.ts";
import { launch, open, stop, visible, where, write } from "./browser.ts";
import { Run } from "./sample.ts";

const us = 1000;

/** twoCores is a run with a kernel of six blocks on two cores, and one on one. */
function twoCores() {
  const run = new Run();
  run.data.strings.kinds = [...run.data.strings.kinds, ...Array<string>(Kind.Kernel + 1 - run.data.strings.kinds.length).fill("kernel")];
  const first = run.task({ kind: Kind.Kernel, direction: 0, memory: 0, stream: 0, number: 1, segments: 6, submit: 100 * us, start: 200 * us, end: 600 * us });
  const second = run.task({ kind: Kind.Kernel, direction: 0, memory: 0, stream: 0, number: 2, segments: 1, submit: 110 * us, start: 700 * us, end: 900 * us });
  run.data.tasks.kernel = ["add", "scale"];
  run.data.cores = {
    task: [first, first, second], core: [1, 0, 0], first: [0, 1, 0], blocks: [4, 2, 1],
    kernel: ["add", "add", "scale"], start: [210 * us, 220 * us, 705 * us], end: [590 * us, 400 * us, 895 * us],
  };
  return run.data;
}

test("each core has a row with its pieces, below the streams", () => {
  const m = build(twoCores());
  assert.deepEqual(coresOf(m, 0).map((c) => [c.number, c.pieces]), [[0, [1, 2]], [1, [0]]]);
  assert.deepEqual(coresOf(m, 1), []);
  const rows = m.rows.filter((r) => r.kind === "core");
  assert.deepEqual(rows.map((r) => [r.key, r.name, r.group]), [["c0.0", "Core 0", "k0"], ["c0.1", "Core 1", "k0"]]);
  assert.deepEqual([...rows[0].lanes[0].items], [0, 1]);
  assert.deepEqual([...rows[0].lanes[0].start], [220 * us, 705 * us]);
  assert.ok(m.rows.findIndex((r) => r.kind === "core") > m.rows.findIndex((r) => r.kind === "stream"));
});

test("a kernel says which core did what", () => {
  assert.deepEqual(coreFields(build(twoCores()), 0), [["core 0", "2 blocks from block 1 on, 180 µs"], ["core 1", "4 blocks from block 0 on, 380 µs"]]);
  assert.deepEqual(coreFields(build({ ...twoCores(), cores: undefined }), 0), []);
});

let browser: Browser;
before(async () => (browser = await launch()));
after(() => stop(browser));

test("the page draws them, and a click shows the kernel", async () => {
  const { page, errors } = await open(browser, write("cores", twoCores()), {}, "");
  const row = (await visible(page)).rows.find((r) => r.key === "c0.0")!;
  assert.equal(row.bars.length, 2);
  const at = await where(page, "task", 0);
  await page.mouse.click(at.x, at.y);
  assert.match((await page.locator("body").innerText()), /4 blocks from block 0 on/);
  assert.deepEqual(errors, []);
  await page.context().close();
});
