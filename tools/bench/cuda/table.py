#!/usr/bin/env python3
"""Measures the runtime on a GPU against CUDA itself, in one run, and prints one table.

Two programs serve requests, which acl/bench.c explains: bench.cu is CUDA, acl/ a C program that uses libascendcl.so. They are
asked in turn, so that a slow moment hits both; each figure is the median over all turns. Both verify every run.

    table.py --cuda COMMAND --acl COMMAND [--old COMMAND] [--rows KINDS] [--short] [--seconds N] [--out FOLDER] [--about TEXT]...

With --old there is a third, acl/ with the library as it was before a change: it does what acl/ does, in the same turns, and
"x before" is how many times as fast the library is now.
"""
import argparse
import json
import pathlib
import shlex
import statistics
import subprocess
import sys
import time

KIB, MIB = 1 << 10, 1 << 20
WAYS = ("h2d", "d2h", "d2d")

# What is asked: batches of 4,096 against one cudaMemcpyBatchAsync.
TIMES_BATCH = {
    (256, "h2d"): 100, (256, "d2h"): 50, (4 * KIB, "h2d"): 22, (4 * KIB, "d2h"): 7,
}

# Models of 4,096 copies against a CUDA graph of them, from the launch to the end.
TIMES_GRAPH = {
    (256, "h2d"): 60, (256, "d2h"): 40, (256, "d2d"): 60,
    (4 * KIB, "h2d"): 25, (4 * KIB, "d2h"): 20, (4 * KIB, "d2d"): 100,
}


class Program:
    """One of the programs. It reads requests from its standard input."""

    def __init__(self, name, command):
        self.name = name
        self.process = subprocess.Popen(shlex.split(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def line(self):
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"table.py: {self.name} has ended")
        return line.strip()

    def start(self):
        if (line := self.line()) != "ready":
            raise SystemExit(f"table.py: {self.name}: {line}")

    def ask(self, what, way, segments, size, odd, rounds):
        print(what, way, segments, size, int(odd), rounds, file=self.process.stdin, flush=True)
        line = self.line()
        try:
            return [float(word) for word in line.split()]
        except ValueError:
            raise SystemExit(f"table.py: {self.name}: {what} {way} {segments} x {size}: {line}") from None


class Row:
    """One row of the table: the medians, in microseconds, of those that take part, by name."""

    def __init__(self, kind, way, segments, size, names):
        self.kind, self.way, self.segments, self.size, self.names = kind, way, segments, size, names
        self.us = {}

    @property
    def total(self):
        return self.segments * self.size

    def rate(self, name):
        """GB/s, or None."""
        return self.total / self.us[name] / 1e3 if name in self.us else None

    def rounds(self, name):
        """How often it is measured in a turn: less often what takes long."""
        if self.total >= 256 * MIB:
            return 2
        if self.total >= 64 * MIB:
            return 1
        slow = self.segments > 1000 and (self.kind == "loop" or name in ("cuda.loop", "cuda.batch", "cuda.graph"))  # 10 to 20 ms
        return 3 if slow else 9

    def measure(self, programs, turns):
        if self.total >= 256 * MIB:
            turns = 1
        times = {name: [] for name in self.names}
        for turn in range(turns):
            order = self.names if turn % 2 == 0 else self.names[::-1]
            for name in order:
                program, what = name.split(".")
                odd, rounds = what == "odd", self.rounds(name)
                times[name] += programs[program].ask("batch" if odd else what, self.way, self.segments, self.size, odd, rounds)
        self.us = {name: statistics.median(t) for name, t in times.items()}


def rows(short):
    """The rows, the most wanted first."""
    for way in WAYS:
        yield Row("submit", way, 1, 64, ["cuda.submit", "acl.submit"])
    for way in WAYS:
        yield Row("round trip", way, 1, 64, ["cuda.loop", "acl.loop"])
    for size in (256, 4 * KIB) if short else (64, 256, 4 * KIB, 64 * KIB):
        for way in WAYS:
            yield Row("loop", way, 4096, size, ["cuda.loop", "acl.loop"])
    for size in (256, 4 * KIB, 64 * KIB) if short else (256, KIB, 4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB):
        for way in ("h2d", "d2h"):
            yield Row("batch", way, 4096, size, ["cuda.loop", "cuda.batch", "cuda.kernel", "acl.batch", "acl.odd"])
    for way in WAYS:
        yield Row("graph", way, 1, 64, ["cuda.graph", "acl.graph", "acl.loop"])
    for size in (256, 4 * KIB):
        for way in WAYS:
            yield Row("graph", way, 4096, size, ["cuda.graph", "acl.graph"])
            yield Row("compile", way, 4096, size, ["cuda.compile", "acl.compile"])
    sizes = [4 * KIB << 2 * i for i in range(10)]
    for size in (sizes[2], sizes[4], sizes[6], sizes[8]) if short else sizes:
        for way in WAYS:
            yield Row("bulk", way, 1, size, ["cuda.loop", "acl.loop"])
    for size in (64 * KIB, MIB) if short else (4 * KIB, 64 * KIB, 256 * KIB, MIB, 4 * MIB):
        for segments in (2, 8) if short else (1, 2, 3, 4, 8, 16, 64):
            for way in ("h2d", "d2h"):
                yield Row("few", way, segments, size, ["cuda.loop", "cuda.batch", "cuda.kernel", "acl.batch"])
    for size in (64 * MIB,) if short else (64 * KIB, MIB, 16 * MIB, 256 * MIB):
        for way in ("h2d", "d2h"):
            yield Row("ordinary memory", way, 1, size, ["cuda.ordinary", "acl.ordinary", "acl.fresh"])


def judged(row, link):
    """What is asked of a row, and what was before: (what, ratio, the least or most there should be, whether it is met)."""
    before = [name for name in row.us if name.startswith("old.")]
    return asked(row, link) + [("x before", row.us[n] / row.us["acl." + n[4:]], "", True) for n in before]


def asked(row, link):
    """What is asked of a row."""
    us = row.us
    if row.kind == "submit":
        ratio = us["acl.submit"] / us["cuda.submit"]
        return [("C API / CUDA", ratio, "<= 1.1", ratio <= 1.1)]
    if row.kind == "round trip":
        ratio = us["acl.loop"] / us["cuda.loop"]
        return [("C API / CUDA", ratio, "", True)]
    if row.kind == "graph":
        ratio = us["cuda.graph"] / us["acl.graph"]
        wanted = TIMES_GRAPH.get((row.size, row.way)) if row.segments > 1 else None
        result = [("x CUDA's graph", ratio, f">= {wanted}" if wanted else "", not wanted or ratio >= wanted)]
        if "acl.loop" in us:
            ratio = us["acl.loop"] / us["acl.graph"]
            result.append(("x the copy itself", ratio, ">= 1", ratio >= 1))
        return result
    if row.kind == "compile":
        ratio = us["cuda.compile"] / us["acl.compile"]
        return [("x cudaGraphInstantiate", ratio, ">= 5", ratio >= 5)]
    if row.kind == "loop":
        ratio = us["cuda.loop"] / us["acl.loop"]
        return [("x CUDA's loop", ratio, ">= 1", ratio >= 1)]
    if row.kind == "bulk":
        ratio = us["cuda.loop"] / us["acl.loop"]
        return [("of CUDA", ratio, ">= 0.99", ratio >= 0.99)]
    if row.kind == "ordinary memory":
        ratio = row.rate("acl.ordinary") / link[row.way] if row.way in link else 0
        return [("of the link", ratio, "", True)]
    better = min(us["cuda.loop"], us["cuda.batch"]) / us["acl.batch"]
    result = [("x better way", better, ">= 1", better >= 1)]
    if row.kind == "batch":
        times, asked = us["cuda.batch"] / us["acl.batch"], TIMES_BATCH.get((row.size, row.way))
        result.append(("x batch call", times, f">= {asked}" if asked else "", not asked or times >= asked))
        odd = us["acl.batch"] / us["acl.odd"]
        result.append(("odd / aligned", odd, ">= 0.5", odd >= 0.5))
        if row.size == 4 * KIB and row.way in link:
            part = row.rate("acl.batch") / link[row.way]
            result.append(("of the link", part, ">= 0.85", part >= 0.85))
    return result


def size_name(n):
    for unit, name in ((1 << 30, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if n >= unit:
            return f"{n // unit} {name}"
    return f"{n} B"


COLUMNS = (
    ("CUDA loop", ("cuda.loop", "cuda.submit", "cuda.ordinary", "cuda.graph", "cuda.compile")), ("CUDA batch", ("cuda.batch",)), ("kernel alone", ("cuda.kernel",)),
    ("C API", ("acl.batch", "acl.graph", "acl.compile", "acl.loop", "acl.submit", "acl.ordinary")),
    ("odd or fresh", ("acl.odd", "acl.fresh")),
    ("C API before", ("old.batch", "old.graph", "old.compile", "old.loop", "old.submit", "old.ordinary")),
)


def markdown(done, link):
    """The table. Rows of calls are in microseconds, loops in microseconds for each copy, all others in GB/s."""
    columns = COLUMNS if any(n.startswith("old.") for row in done for n in row.us) else COLUMNS[:-1]
    yield "| | | copies | unit | " + " | ".join(title for title, _ in columns) + " | ratios, and what is asked |"
    yield "|" + "---|" * (len(columns) + 5)
    for row in done:
        unit = {"submit": "µs", "round trip": "µs", "loop": "µs a copy", "graph": "µs a copy", "compile": "µs a copy"}.get(row.kind, "GB/s")
        cells = []
        for _, names in columns:
            value = next((row.rate(n) if unit == "GB/s" else row.us[n] / row.segments for n in names if n in row.us), None)
            cells.append("" if value is None else f"{value:.2f}" if value < 100 else f"{value:.0f}")
        ratios = []
        for what, ratio, asked, met in judged(row, link):
            number = f"{ratio:.2f}" if ratio < 20 else f"{ratio:.0f}"
            ratios.append(f"{number if met else f'**{number}**'} {what}" + (f" ({asked})" if asked else ""))
        copies = f"{row.segments:,} x {size_name(row.size)}"
        yield "| " + " | ".join([row.kind, row.way.upper(), copies, unit, *cells, "; ".join(ratios)]) + " |"


def main():
    parse = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("cuda", "acl"):
        parse.add_argument(f"--{name}", required=True, help="command that starts the program")
    parse.add_argument("--old", help="command that starts acl/ with the library as it was before")
    parse.add_argument("--rows", help="only these kinds of rows, with commas between them, e.g. 'round trip,bulk,few'")
    parse.add_argument("--short", action="store_true", help="fewer sizes and turns")
    parse.add_argument("--seconds", type=float, default=1e9, help="leave out what has not begun by then")
    parse.add_argument("--out", type=pathlib.Path, help="folder for gpu.md and gpu.json")
    parse.add_argument("--about", action="append", default=[], help="line for the top of the results")
    args = parse.parse_args()

    begin = time.monotonic()
    names = [name for name in ("cuda", "acl", "old") if getattr(args, name)]
    programs = {name: Program(name, getattr(args, name)) for name in names}
    for program in programs.values():
        program.start()
    for _ in range(3):  # until the GPU has its full speed, and every program has done everything once
        for way in WAYS:
            for program in programs.values():
                program.ask("loop", way, 1, 64 * MIB, False, 3)
                program.ask("submit", way, 1, 64, False, 9)
    done, left = [], []
    for row in rows(args.short):
        if args.rows and row.kind not in args.rows.split(","):
            continue
        if args.old:
            row.names += ["old." + n[4:] for n in row.names if n.startswith("acl.") and n[4:] not in ("odd", "fresh")]
        if time.monotonic() - begin > args.seconds:
            left.append(row)
            continue
        row.measure(programs, 2 if args.short else 3)
        done.append(row)
        print(f"{time.monotonic() - begin:5.0f} s {row.kind} {row.way} {row.segments} x {size_name(row.size)}", file=sys.stderr, flush=True)
    for program in programs.values():
        program.process.stdin.close()
        program.process.wait()

    link = {}
    for row in done:
        if row.kind == "bulk":
            link[row.way] = max(link.get(row.way, 0), row.rate("cuda.loop"))
    text = [*args.about, "", *markdown(done, link), ""]
    missed = [f"{r.kind} {r.way} {r.segments} x {size_name(r.size)}: {ratio:.2f} {what}, asked {asked}"
              for r in done for what, ratio, asked, met in judged(r, link) if not met]
    text += [f"{sum(len(judged(r, link)) for r in done)} ratios, {len(missed)} of them short of what is asked; every run was verified."]
    text += [f"- {m}" for m in missed]
    if left:
        text += ["", f"No time was left for {len(left)} rows, from {left[0].kind} {left[0].way} {size_name(left[0].size)} on."]
    print("\n".join(text))
    if args.out:
        args.out.mkdir(parents=True, exist_ok=True)
        (args.out / "gpu.md").write_text("\n".join(text) + "\n")
        result = {"about": args.about, "rows": [
            {"kind": r.kind, "way": r.way, "segments": r.segments, "bytes": r.size, "microseconds": r.us,
             "ratios": [{"what": w, "ratio": x, "asked": a, "met": m} for w, x, a, m in judged(r, link)]} for r in done]}
        (args.out / "gpu.json").write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
