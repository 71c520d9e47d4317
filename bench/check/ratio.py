"""Runs a program with the checker and without, in turn, and prints what the checker costs.

    python3 bench/check/ratio.py TOOLKIT PROGRAM [ROUNDS]
"""

import statistics
import subprocess
import sys


def run(command):
    """The numbers that a program printed, by name."""
    found = {}
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    for line in text.splitlines():
        name, value = line.split()
        found.setdefault(name, []).append(float(value))
    return found


def main(toolkit, program, rounds):
    plain, checked = {}, {}
    for _ in range(rounds):
        for to, command in ((plain, ["run"]), (checked, ["check"])):
            for name, values in run([f"{toolkit}/bin/ropeway", *command, program]).items():
                to.setdefault(name, []).extend(values)
    rows = [
        ("bulk", "256 MiB", 1e3, "ms", "1.2 x"),
        ("untouched", "64 B, the host leaves the buffer alone", 1e9, "ns", "10 x"),
        ("touched", "64 B, the host touches the buffer between copies", 1e9, "ns", "10 us"),
        ("same", "a million copies of 64 B to one place", 1e3, "ms", ""),
        ("spread", "a million copies of 64 B to a million places", 1e3, "ms", ""),
    ]
    print("| | without | with | ratio | asked |\n|---|---|---|---|---|")
    for name, what, unit, label, asked in rows:
        a, b = statistics.median(plain[name]), statistics.median(checked[name])
        print(f"| {what} | {a * unit:.0f} {label} | {b * unit:.0f} {label} | {b / a:.2f} | {asked} |")
    a, b = max(plain["grown"]) / 1024, max(checked["grown"]) / 1024
    print(f"| memory that two million tasks take | {a:.0f} MiB | {b:.0f} MiB | | 500 MiB |")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 3)
