// Light and dark: the system's choice until the reader makes one. Canvases take their colours from the style sheet.

import { categoryKeys } from "./model.ts";

export interface Colours {
  text: string;
  muted: string;
  line: string;
  card: string;
  stripe: string;
  accent: string;
  bad: string;
  blocked: string;
  category: string[];
}

let current: Colours | null = null;

export function colours(): Colours {
  if (current) return current;
  const style = getComputedStyle(document.documentElement);
  const get = (name: string) => style.getPropertyValue("--" + name).trim();
  return (current = {
    text: get("text"), muted: get("muted"), line: get("line"), card: get("card"), stripe: get("stripe"), accent: get("accent"),
    bad: get("bad"), blocked: get("blocked"), category: categoryKeys.map((key) => get(key)),
  });
}

const system = matchMedia("(prefers-color-scheme: dark)");

export function dark(): boolean {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : system.matches;
}

export function choose(theme: "light" | "dark" | null): void {
  if (theme) document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
  current = null;
}

/** onChange calls f whenever other colours are needed: the system changed its mind, or the page is printed. */
export function onChange(f: () => void): void {
  const again = () => {
    current = null;
    f();
  };
  system.addEventListener("change", again);
  let before: string | undefined;
  addEventListener("beforeprint", () => {
    before = document.documentElement.dataset.theme;
    choose("light");
    f();
  });
  addEventListener("afterprint", () => {
    choose((before as "light" | "dark" | undefined) ?? null);
    f();
  });
}
