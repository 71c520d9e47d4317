// How numbers look: short, with units, the same everywhere.

const timeUnits: [string, number][] = [["s", 1e9], ["ms", 1e6], ["µs", 1e3], ["ns", 1]];
const byteUnits = ["B", "KiB", "MiB", "GiB", "TiB"];

/** digits writes v with three significant digits and without useless zeros. */
function digits(v: number): string {
  const text = v.toFixed(v >= 100 ? 0 : v >= 10 ? 1 : 2);
  return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
}

/** time writes nanoseconds. */
export function time(ns: number): string {
  if (ns < 0) return "−" + time(-ns);
  for (const [unit, size] of timeUnits) if (ns >= size * 0.9995 || unit === "ns") return digits(ns / size) + " " + unit;
  return "0 ns";
}

/** moment writes a point in time with as many digits as points step apart need. */
export function moment(ns: number, step: number): string {
  const [unit, size] = timeUnits.find(([, size]) => Math.abs(ns) >= size || step >= size) ?? timeUnits[3];
  const decimals = Math.max(0, Math.min(9, Math.ceil(-Math.log10(step / size) - 1e-9)));
  return (ns / size).toFixed(decimals) + " " + unit;
}

export function bytes(n: number): string {
  let unit = 0;
  while (n >= 1024 && unit < byteUnits.length - 1) {
    n /= 1024;
    unit++;
  }
  return digits(n) + " " + byteUnits[unit];
}

/** rate writes bytes a nanosecond, which are gigabytes a second. */
export function rate(bytesPerNs: number): string {
  const perSecond = bytesPerNs * 1e9;
  if (perSecond >= 1e9) return digits(perSecond / 1e9) + " GB/s";
  if (perSecond >= 1e6) return digits(perSecond / 1e6) + " MB/s";
  if (perSecond >= 1e3) return digits(perSecond / 1e3) + " kB/s";
  return digits(perSecond) + " B/s";
}

export function count(n: number): string {
  return n.toLocaleString("en-US");
}

export function plural(n: number, one: string, many = one + "s"): string {
  return count(n) + " " + (n === 1 ? one : many);
}

/** parseBytes reads "4096", "64K", "1.5 MiB"; null if it is no size. */
export function parseBytes(text: string): number | null {
  const m = /^\s*([\d.]+)\s*([kmgt]?)(?:i?b)?\s*$/i.exec(text);
  if (!m || isNaN(Number(m[1]))) return null;
  return Number(m[1]) * 1024 ** " kmgt".indexOf(m[2].toLowerCase() || " ");
}

/** parseTime reads "250", "10us", "1.5 ms" as nanoseconds (a bare number is µs); null if it is no time. */
export function parseTime(text: string): number | null {
  const m = /^\s*([\d.]+)\s*(ns|us|µs|μs|ms|s)?\s*$/i.exec(text);
  if (!m || isNaN(Number(m[1]))) return null;
  const unit = (m[2] ?? "us").toLowerCase().replace(/[µμ]/, "u");
  return Number(m[1]) * { ns: 1, us: 1e3, ms: 1e6, s: 1e9 }[unit as "ns" | "us" | "ms" | "s"];
}
