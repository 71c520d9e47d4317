// What whoever wrote the page says besides the run, in its head.

import { h } from "./dom.ts";

const given = (name: string) => document.querySelector<HTMLMetaElement>(`meta[name="${name}"]`)?.content ?? "";

/** view is what to look at first, in the form of an address: "#t=FROM,TO". The page's own address goes before it. */
export function view(): string {
  return location.hash || "#" + given("ropeway-view");
}

const base = given("ropeway-docs");
const known = /^(?:file|https?):\/\/.*\/$/.test(base);

/** docs is text as a link to a page of the documentation, or the text where nobody knows where that is. */
export function docs(path: string, text: string): HTMLElement | string {
  return known ? h("a", { href: base + path, target: "_blank", rel: "noopener" }, text) : text;
}
