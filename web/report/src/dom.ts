// Elements, made in one line. Text is always text: nothing of a run becomes markup.

type Child = Node | string | null | undefined | false;
type Props = Record<string, unknown>;

export function h<K extends keyof HTMLElementTagNameMap>(tag: K, props: Props = {}, ...children: Child[]): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value as EventListener);
    else if (key in element && !key.includes("-") && key !== "list") (element as unknown as Props)[key] = value;
    else element.setAttribute(key, value === true ? "" : String(value));
  }
  for (const child of children) if (child) element.append(child);
  return element;
}

/** icon draws a path of 16 by 16 in the colour of the text. */
export function icon(path: string): SVGSVGElement {
  const ns = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(ns, "svg");
  svg.setAttribute("viewBox", "0 0 16 16");
  svg.setAttribute("aria-hidden", "true");
  const p = document.createElementNS(ns, "path");
  p.setAttribute("d", path);
  svg.append(p);
  return svg;
}

const live = h("div", { className: "unseen", role: "status", "aria-live": "polite" });

/** say announces a text to screen readers. */
export function say(text: string): void {
  if (!live.isConnected) document.body.append(live);
  live.textContent = text;
}
