"""Runs a program as it is and with the checker or the recorder, in turn, and prints what that costs.

    python3 tools/bench/overhead/ratio.py check|trace TOOLKIT PROGRAM [ROUNDS]
"""

import os
import subprocess
import sys
import tempfile

# What the program prints, in words, its unit, and what was asked for. Of the recorder, the calls of a task count too.
CHECK = [
    ("bulk", "256 MiB", 1e3, "ms", "1.2 x"),
    ("untouched", "64 B, the host leaves the buffer alone", 1e9, "ns", "10 x"),
    ("touched", "64 B, the host touches the buffer between copies", 1e9, "ns", "10 us"),
    ("one", "a model of one copy, executed and waited for", 1e9, "ns", "10 x"),
    ("some", "a model of 64 copies", 1e9, "ns", "10 x"),
    ("many", "a model of 1,000 copies", 1e9, "ns", "10 x"),
    ("function", "a host function, a synchronisation after 64 of them", 1e9, "ns", "5 x"),
    ("reading", "a copy and a function that reads it, a synchronisation after 64 of each", 1e9, "ns", "5 x"),
    ("same", "a million copies of 64 B to one place", 1e3, "ms", ""),
    ("spread", "a million copies of 64 B to a million places", 1e3, "ms", ""),
]
TRACE = [
    ("bulk", "256 MiB", 1e3, "ms", 1, "1.1 x"),
    ("untouched", "64 B, a synchronisation after 64 of them", 1e9, "ns", 1, "100 ns a task"),
    ("touched", "64 B and a synchronisation", 1e9, "ns", 2, "100 ns a task and call"),
    ("same", "a million copies of 64 B", 1e3, "ms", 1, "100 ms"),
]


def run(command, record):
    """The numbers that a program printed, by name, and the bytes that were recorded."""
    found = {}
    with tempfile.TemporaryDirectory() as recorded:
        env = {name: value for name, value in os.environ.items() if name != "ROPEWAY_TRACE"}
        if record:
            env["ROPEWAY_TRACE"] = recorded
        text = subprocess.run(command, check=True, capture_output=True, text=True, env=env).stdout
        size = sum(os.path.getsize(os.path.join(recorded, name)) for name in os.listdir(recorded))
    for line in text.splitlines():
        name, value = line.split()
        found.setdefault(name, []).append(float(value))
    return found, size


def main(what, toolkit, program, rounds):
    plain, watched, recorded = {}, {}, 0
    command = f"{toolkit}/bin/ropeway"
    for _ in range(rounds):
        for to, verb, record in ((plain, "run", False), (watched, "check" if what == "check" else "run", what == "trace")):
            numbers, size = run([command, verb, program], record)
            recorded = max(recorded, size)
            for name, values in numbers.items():
                to.setdefault(name, []).extend(values)
    grown = [max(numbers["grown"]) / 1024 for numbers in (plain, watched)]
    memory = "| memory that two million tasks take | {:.0f} MiB | {:.0f} MiB | |".format(*grown)
    if what == "check":
        print("| | without | with | ratio | asked |\n|---|---|---|---|---|")
        for name, words, unit, label, asked in CHECK:
            a, b = min(plain[name]), min(watched[name])
            print(f"| {words} | {a * unit:.0f} {label} | {b * unit:.0f} {label} | {b / a:.2f} | {asked} |")
        print(f"{memory} 500 MiB |")
        return
    print("| | not recorded | recorded | ratio | more | asked |\n|---|---|---|---|---|---|")
    for name, words, unit, label, calls, asked in TRACE:
        a, b = min(plain[name]), min(watched[name])
        more = f"{(b - a) * unit / calls:.0f} {label}"
        print(f"| {words} | {a * unit:.0f} {label} | {b * unit:.0f} {label} | {b / a:.2f} | {more} | {asked} |")
    print(f"{memory} | bounded |\n\nA run recorded {recorded >> 20} MiB.")


if __name__ == "__main__":
    main(*sys.argv[1:4], int(sys.argv[4]) if len(sys.argv) > 4 else 3)
