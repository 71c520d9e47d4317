// Builds the page to one side and compares it with the committed one.

import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const here = join(import.meta.dirname, "..");
const out = mkdtempSync(join(tmpdir(), "page-"));
try {
  execFileSync(join(here, "node_modules/.bin/vite"), ["build", "--logLevel", "error"], { cwd: here, stdio: "inherit", env: { ...process.env, PAGE_OUT: out } });
  const [built, committed] = [join(out, "page.html"), join(here, "../../internal/report/page.html")].map((file) => readFileSync(file));
  if (!built.equals(committed)) {
    console.error("internal/report/page.html does not come from web/report; run npm run build there");
    process.exitCode = 1;
  }
} finally {
  rmSync(out, { recursive: true, force: true });
}
