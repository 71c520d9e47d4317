// Takes pictures of pages for the docs.

import { spawnSync } from "node:child_process";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import type { Browser, BrowserContextOptions, Page } from "playwright-core";
import { open } from "./browser.ts";

const out = join(import.meta.dirname, "../../../docs/images");
mkdirSync(out, { recursive: true });

/** picture opens a page, does something with it, and writes docs/images/NAME.png: of all that is seen, or of the part that act names. */
export async function picture(browser: Browser, name: string, path: string, options: BrowserContextOptions, act: (page: Page) => Promise<string | void>): Promise<void> {
  const { page } = await open(browser, path, { viewport: { width: 1280, height: 820 }, ...options });
  const part = await act(page);
  await page.waitForTimeout(250);
  const to = join(out, name + ".png");
  if (part) await page.locator(part).screenshot({ path: to });
  else await page.screenshot({ path: to });
  await page.context().close();
  spawnSync("pngquant", ["--force", "--skip-if-larger", "--strip", "--output", to, "128", to]); // a third of the bytes, where it is installed
}
