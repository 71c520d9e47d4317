// Makes the pictures of docs/tutorial.md: does what the page tells, with the toolkit that TOOLKIT names, and takes a picture of each
// report. Other programs of the machine are seen in a trace, so each is made several times, and the shortest is shown.

import { execFileSync } from "node:child_process";
import { copyFileSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import type { Page } from "playwright-core";
import { launch, open, stop, visible } from "./browser.ts";
import { picture } from "./picture.ts";

const runs = 20;
const page = join(import.meta.dirname, "../../../docs/tutorial.md");
const toolkit = resolve(process.env.TOOLKIT ?? join(import.meta.dirname, "../../../dist"));
const made = mkdtempSync(join(tmpdir(), "tutorial-"));
const sh = (script: string) => execFileSync("sh", ["-euc", script], { cwd: made, stdio: "pipe" });

/** follow writes the files of the page and runs its commands. */
function follow(): void {
  symlinkSync(toolkit, join(made, "dist"));
  let script = "make() { :; }\n";
  for (const [, language, file, text] of readFileSync(page, "utf8").matchAll(/^```(\w+) ?(\S*)\n(.*?)^```$/gms)) {
    if (file) writeFileSync(join(made, file), text);
    else if (language === "sh") script += text;
  }
  sh(script);
}

const browser = await launch();

/** shortest records a program again and again, and keeps the report of the shortest run. */
async function shortest(program: string): Promise<string> {
  const best = join(made, "best-" + program + ".html");
  let least = Infinity;
  for (let i = 0; i < runs; i++) {
    sh(`. dist/set_env.sh; ropeway trace -o again.html ./${program}`);
    const { page } = await open(browser, join(made, "again.html"));
    const { duration } = await visible(page);
    await page.context().close();
    if (duration < least) copyFileSync(join(made, "again.html"), best);
    least = Math.min(least, duration);
  }
  return best;
}

/** show makes the timeline show a few rounds of the loop. */
async function show(page: Page): Promise<void> {
  await page.focus(".scroller");
  for (let i = 0; i < 3; i++) await page.keyboard.press("+");
}

follow();
const size = { viewport: { width: 1280, height: 760 } };
await picture(browser, "tutorial-race", join(made, "racing.html"), size, async (page) => {
  await page.click("#tab-findings");
  await page.locator("#panel-findings summary").first().click();
});
for (const program of ["waiting", "turns"]) {
  await picture(browser, "tutorial-" + program, await shortest(program), size, show);
}
await stop(browser);
rmSync(made, { recursive: true });
