// Makes the pictures of the docs, one for each view: npm run pictures writes docs/images/report*.png. What they show is the
// run of internal/report/sample, the same each time.

import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { launch, stop, visible, where } from "./browser.ts";
import { picture } from "./picture.ts";

const root = join(import.meta.dirname, "../../..");
const made = mkdtempSync(join(tmpdir(), "sample-"));

/** sample is a report of the run that nobody ran. */
function sample(name: string, ...flags: string[]): string {
  const file = join(made, name + ".html");
  writeFileSync(file, execFileSync("go", ["run", "./internal/report/sample", "-form", "html", ...flags], { cwd: root, maxBuffer: 1 << 30 }));
  return file;
}
const file = sample("serving", "-tasks", "600", "-seed", "3");
const checked = sample("checked", "-tasks", "300", "-checked");
const browser = await launch();

/** zoom makes the timeline show a share of the run around its middle. */
async function zoom(page: Page, steps: number): Promise<void> {
  await page.focus(".scroller");
  for (let i = 0; i < steps; i++) await page.keyboard.press("+");
}

/** point puts the pointer on a wide copy of a stream. */
async function point(page: Page): Promise<{ x: number; y: number }> {
  const bars = (await visible(page)).rows.filter((r) => r.kind === "stream").flatMap((r) => r.bars);
  const bar = bars.filter((b) => b.category !== "event" && b.width > 8 && b.x > 200 && b.x < 600).sort((a, b) => b.width - a.width)[0];
  const at = await where(page, "task", bar.index);
  await page.mouse.move(at.x, at.y);
  return at;
}

await picture(browser, "report", file, {}, async () => {});
await picture(browser, "report-dark", file, { colorScheme: "dark" }, async () => {});
await picture(browser, "report-zoomed", file, {}, async (page) => {
  await zoom(page, 4);
  const at = await point(page);
  await page.mouse.click(at.x, at.y);
  await page.mouse.move(at.x + 1, at.y);
});
await picture(browser, "report-advice", file, {}, async (page) => {
  await page.click("#tab-advice");
  await page.locator(".advice .act").first().click({ timeout: 2000 }).catch(() => {});
});
await picture(browser, "report-findings", checked, {}, async (page) => {
  const mark = await where(page, "finding", 0);
  await page.mouse.click(mark.x, mark.y);
  await page.mouse.move(2, 2);
});
await picture(browser, "report-search", file, {}, async (page) => {
  await page.click("text=Filters");
  await page.fill("#search", "d2h");
  await page.fill("[name=minBytes]", "64K");
});
await picture(browser, "report-calls", file, {}, async () => "#calls");
await picture(browser, "report-phone", file, { viewport: { width: 360, height: 780 }, deviceScaleFactor: 2, hasTouch: true, isMobile: true }, async (page) => {
  await page.evaluate(() => document.querySelector(".toolbar")!.scrollIntoView());
});
await stop(browser);
rmSync(made, { recursive: true });
