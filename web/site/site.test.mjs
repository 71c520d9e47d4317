// Reads a site that was written to SITE, from disk, in the system's Chromium. playwright-core is that of web/report.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { createRequire } from "node:module";
import { after, before, test } from "node:test";
import { pathToFileURL } from "node:url";

const { chromium } = createRequire(new URL("../report/package.json", import.meta.url))("playwright-core");
const site = pathToFileURL(process.env.SITE).href + "/";
let browser;

before(async () => {
  const executablePath = process.env.CHROMIUM ?? execFileSync("sh", ["-c", "command -v chromium"]).toString().trim();
  // Containers have no sandbox, and the pages are ours.
  browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
});
after(() => browser?.close());

/** open opens a page; what goes wrong in it, and what it asks of a network, fails the test at its end. */
async function open(t, path, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1400, height: 900 }, ...options });
  const page = await context.newPage();
  const wrong = [];
  page.on("pageerror", (e) => wrong.push(e.message));
  page.on("console", (m) => wrong.push(m.text()));
  page.on("request", (r) => /^(file|data):/.test(r.url()) || wrong.push(r.url()));
  t.after(async () => {
    await context.close();
    assert.deepEqual(wrong, []);
  });
  await page.goto(site + path);
  return page;
}

const results = (page) => page.$$eval("#results a", (all) => all.map((a) => a.href));

async function search(page, words) {
  await page.fill("#search", "");
  await page.fill("#search", words);
  await page.waitForFunction(() => !document.querySelector("#results").hidden);
}

test("the search finds functions, codes, pages and sections, from disk", async (t) => {
  const page = await open(t, "docs/c.html");
  await page.keyboard.press("/");
  for (const [words, first] of [
    ["aclrtMemcpyAsync", "functions/aclrtMemcpyAsync.html"],
    ["acl.rt.memcpy_async", "functions/aclrtMemcpyAsync.html"],
    ["107002", "codes/107002.html"],
    ["aclrtMemcpyKind", "types/aclrtMemcpyKind.html"],
    ["stream-race", "docs/check.html#stream-race"],
    ["install", "README.html#install"],
    ["trace", "docs/trace.html"],
    ["Stream.Copy", "go/ropeway.html#Stream.Copy"],
    ["memcpy", "functions/aclrtMemcpy.html"],
    ["aclrtMemcpyAsnyc", "functions/aclrtMemcpyAsync.html"], // two letters are wrong
  ]) {
    await search(page, words);
    assert.equal((await results(page))[0], site + first, words);
  }
  await search(page, "race");
  for (const path of (await results(page)).slice(0, 3)) assert.match(path, /tutorial|race/);
  await search(page, "pageable synchronise");
  assert.ok((await results(page)).length > 1);
  assert.ok(await page.locator("#results mark").count() > 0);
  await search(page, "zzzzqqqq");
  assert.equal(await page.textContent("#results"), "Nothing has “zzzzqqqq”.");
  await search(page, "<b>(");
  assert.equal(await page.locator("#results b b").count(), 0);
});

test("the search is used with the keyboard alone", async (t) => {
  const page = await open(t, "index.html");
  await page.keyboard.press("Control+k");
  await page.keyboard.type("aclrtMalloc");
  await page.waitForSelector("#results a");
  const all = await results(page);
  assert.equal(await page.getAttribute("#search", "aria-expanded"), "true");
  await page.keyboard.press("ArrowDown");
  const active = await page.getAttribute("#search", "aria-activedescendant");
  assert.equal(await page.getAttribute("#" + active, "href").then((h) => new URL(h, page.url()).href), all[1]);
  await page.keyboard.press("Enter");
  await page.waitForURL(all[1]);
  await page.keyboard.press("Tab");
  assert.equal(await page.evaluate(() => document.activeElement.textContent), "Go to the text");
});

test("tables sort by numbers, units and words", async (t) => {
  const page = await open(t, "docs/coverage.html");
  const table = page.locator("table.sortable").first();
  const column = (n) => table.locator(`tbody tr td:nth-child(${n})`).allTextContents();
  const rules = table.locator("th button", { hasText: "Rules" });
  await rules.focus();
  await page.keyboard.press("Enter");
  await page.keyboard.press("Enter");
  assert.equal(await table.locator("th", { hasText: "Rules" }).getAttribute("aria-sort"), "descending");
  const numbers = (await column(4)).map(Number);
  assert.deepEqual(numbers.slice(0, -1), numbers.slice(0, -1).toSorted((a, b) => b - a));
  assert.equal((await column(1)).at(-1), "all"); // the sum stays at the end
  await table.locator("th button", { hasText: "Group" }).click();
  const names = (await column(1)).slice(0, -1);
  assert.deepEqual(names, names.toSorted(new Intl.Collator("en").compare));
});

test("the list of functions is filtered", async (t) => {
  const page = await open(t, "functions/index.html");
  await page.fill("[data-filter=functions]", "memcpybatch");
  const shown = await page.locator("#functions tbody tr:visible td:first-child a").allTextContents();
  assert.ok(shown.length > 2 && shown.every((name) => name.includes("MemcpyBatch")), shown.join());
});

test("the theme is the system's until the reader chooses one", async (t) => {
  const page = await open(t, "index.html", { colorScheme: "dark" });
  const light = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor === "rgb(255, 255, 255)");
  assert.equal(await light(), false);
  await page.click("#theme");
  assert.equal(await light(), true);
  await page.goto(site + "docs/go.html");
  assert.equal(await light(), true);
});

test("nothing is wider than a phone, and the list of pages opens", async (t) => {
  const page = await open(t, "index.html", { viewport: { width: 360, height: 700 }, hasTouch: true });
  const all = await page.$$eval("nav.pages a", (links) => links.map((a) => a.href));
  assert.ok(all.length > 30);
  await page.goto(site + "codes/107002.html");
  const share = await page.evaluate(() => document.querySelector("td").getBoundingClientRect().width / innerWidth);
  assert.ok(share < .55, "the first column takes " + share);
  all.push(site + "functions/aclrtMemcpyAsync.html", site + "codes/107002.html", site + "types/aclrtMemcpyKind.html",
    site + "src/examples/c/async_copy.c.html");
  for (const path of all) {
    await page.goto(path);
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), path);
  }
  const pages = page.locator("nav.pages ul").first();
  assert.equal(await pages.isVisible(), false);
  await page.tap("nav.pages summary");
  assert.equal(await pages.isVisible(), true);
});

test("pages are complete without scripts", async (t) => {
  const page = await open(t, "functions/aclrtMemcpy.html", { javaScriptEnabled: false });
  assert.equal(await page.textContent("h1"), "aclrtMemcpy");
  assert.equal(await page.locator("#search").isVisible(), false);
  assert.ok(await page.locator("tbody tr").count() > 5);
  const list = page.locator("nav.pages summary");
  if (await list.isVisible()) await list.click();
  assert.ok(await page.locator("nav.pages a").first().isVisible());
});
