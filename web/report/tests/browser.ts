// Opens the built page with a run in it, in the system's Chromium.

import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { gzipSync } from "node:zlib";
import { chromium, type Browser, type BrowserContextOptions, type Page } from "playwright-core";
import type { Data } from "../src/data.ts";

const page = join(import.meta.dirname, "../../../internal/report/page.html");
let dir = "";

/** launch starts Chromium. CHROMIUM says where it is if it is not in PATH. */
export async function launch(): Promise<Browser> {
  const path = process.env.CHROMIUM ?? execFileSync("sh", ["-c", "command -v chromium"]).toString().trim();
  dir = mkdtempSync(join(tmpdir(), "report-"));
  return chromium.launch({ executablePath: path, args: ["--no-sandbox"] }); // containers have no sandbox, and the pages are ours
}

export async function stop(browser: Browser): Promise<void> {
  await browser.close();
  rmSync(dir, { recursive: true, force: true });
}

/** write puts a run into the page, as Go does. */
export function write(name: string, data: Data, packed = false): string {
  const text = JSON.stringify(data).replaceAll("<", "\\u003c");
  const script = packed
    ? `<script type="application/gzip;base64" id="data">${gzipSync(text).toString("base64")}</script>`
    : `<script type="application/json" id="data">${text}</script>`;
  const file = join(dir, name + ".html");
  writeFileSync(file, readFileSync(page, "utf8").replace(/<script[^>]*\bid="data"[^>]*>.*?<\/script>/s, () => script));
  return file;
}

/** Opened is a page, with what went wrong in it. */
export interface Opened {
  page: Page;
  errors: string[];
  requests: string[]; // of anything but the file itself
}

export async function open(browser: Browser, file: string, options: BrowserContextOptions = {}, hash = ""): Promise<Opened> {
  const context = await browser.newContext({ viewport: { width: 1400, height: 900 }, reducedMotion: "reduce", ...options });
  await context.addInitScript("globalThis.__name = (f) => f"); // the compiler of the tests names functions with it
  const page = await context.newPage();
  const opened: Opened = { page, errors: [], requests: [] };
  page.on("pageerror", (e) => opened.errors.push(e.message));
  page.on("console", (m) => m.type() === "error" && opened.errors.push(m.text()));
  const url = pathToFileURL(file).href;
  page.on("request", (r) => r.url().replace(/#.*/, "") !== url && !r.url().startsWith("data:") && opened.requests.push(r.url()));
  await page.goto(url + hash);
  await page.waitForFunction(() => "ropeway" in window, null, { timeout: 60_000 });
  return opened;
}

export interface Bar { of: string; index: number; count: number; x: number; width: number; category: string; matches: boolean }
export interface Visible {
  from: number;
  to: number;
  duration: number;
  rows: { key: string; kind: string; name: string; note: string; top: number; height: number; bars: Bar[] }[];
  arrows: { kind: string; from: number; to: number; strong: boolean }[];
  arrowsLeft: boolean;
  findings: number;
  range: [number, number] | null;
  gutter: number;
}
interface Api {
  loaded: number;
  frames(): number;
  visible(): Visible;
  where(of: string, index: number): { x: number; y: number };
  selected(): { of: string; index: number } | null;
  axis(): { text: string; x: number; width: number }[];
  matches(): { tasks: number; inside: number; calls: number; all: boolean };
}
declare global {
  interface Window { ropeway: Api }
}

export const visible = (page: Page) => page.evaluate(() => window.ropeway.visible());
export const matches = (page: Page) => page.evaluate(() => window.ropeway.matches());
export const selected = (page: Page) => page.evaluate(() => window.ropeway.selected());
export const where = (page: Page, of: string, index: number) =>
  page.evaluate(([of, index]) => window.ropeway.where(of as string, index as number), [of, index] as const);

export async function row(page: Page, name: string): Promise<Bar[]> {
  const found = (await visible(page)).rows.find((r) => r.name === name);
  if (!found) throw new Error(`there is no row ${name}`);
  return found.bars;
}
