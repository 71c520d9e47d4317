// Makes the pictures of docs/tutorial.md: follows the page, with the toolkit that TOOLKIT names, and takes a picture of each
// report. Other programs of the machine are seen in a trace, so each is made several times, and the one that waited least is shown.

import { execFileSync } from "node:child_process";
import { copyFileSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import type { Page } from "playwright-core";
import type { Data } from "../src/data.ts";
import { launch, stop, visible, where } from "./browser.ts";
import { picture } from "./picture.ts";

const runs = 40;
const page = join(import.meta.dirname, "../../../docs/tutorial.md");
const toolkit = resolve(process.env.TOOLKIT ?? join(import.meta.dirname, "../../../dist"));
const made = mkdtempSync(join(tmpdir(), "tutorial-"));
const own = join(made, "ropeway-tutorial"); // the folder of the reader, in a home of its own
const sh = (script: string, cwd: string) => execFileSync("sh", ["-euc", script], { cwd, stdio: "pipe", env: { ...process.env, HOME: made } });

/** follow writes the files of the page and runs its commands. */
function follow(): void {
  symlinkSync(toolkit, join(made, "dist"));
  let script = "make() { :; }\n";
  for (const [, language, file, text] of readFileSync(page, "utf8").matchAll(/^```(\w+) ?(\S*)\n(.*?)^```$/gms)) {
    if (file) script += `cat >${file} <<'END-OF-THE-FILE'\n${text}END-OF-THE-FILE\n`; // where the reader is by then
    else if (language === "sh") script += text;
  }
  sh(script, made);
}

/** undisturbed records a program again and again, and keeps the report of the run that waited least. */
function undisturbed(program: string): string {
  const best = join(made, "best-" + program + ".html");
  let least = Infinity;
  for (let i = 0; i < runs; i++) {
    sh(`. ../dist/set_env.sh; ropeway trace -o ../again.html ./${program}`, own);
    const { functions, calls } = JSON.parse(readFileSync(join(made, "again.html"), "utf8").match(/id="data">(.*?)<\/script>/s)![1]) as Data;
    const waited = calls.blocked.reduce((sum, ns, i) => sum + (functions[calls.function[i]].includes("Synchronize") ? ns : 0), 0);
    if (waited < least) copyFileSync(join(made, "again.html"), best);
    least = Math.min(least, waited);
  }
  return best;
}

/** zoom makes the timeline show some rounds of the loop, around one in its middle. */
async function zoom(page: Page, rounds: number): Promise<void> {
  const uploads = async () => (await visible(page)).rows.find((r) => r.kind === "stream")!.bars.filter((b) => b.category === "h2d");
  const all = await uploads();
  const at = await where(page, "task", all[all.length >> 1].index);
  await page.mouse.move(at.x, at.y);
  await page.keyboard.down("Control");
  for (let i = 0; i < 200; i++) {
    if ((await uploads()).reduce((n, b) => n + b.count, 0) <= rounds) break;
    await page.mouse.wheel(0, -40);
    await page.waitForTimeout(30);
  }
  await page.keyboard.up("Control");
  await page.mouse.move(2, 2);
}

follow();
const browser = await launch();
const size = { viewport: { width: 1280, height: 760 } };
await picture(browser, "tutorial-race", join(own, "racing.html"), size, async (page) => {
  await page.click("#tab-findings");
  await page.locator("#panel-findings summary").first().click();
});
for (const program of ["waiting", "turns"]) {
  await picture(browser, "tutorial-" + program, undisturbed(program), size, (page) => zoom(page, 12));
}
await stop(browser);
rmSync(made, { recursive: true });
