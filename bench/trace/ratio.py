"""Runs a program recorded and not, in turn, and prints what recording costs.

    python3 bench/trace/ratio.py TOOLKIT PROGRAM [ROUNDS]
"""

import os
import statistics
import subprocess
import sys
import tempfile


def run(command, trace):
    """The numbers that a program printed, by name, and the bytes that were recorded."""
    found = {}
    with tempfile.TemporaryDirectory() as recorded:
        env = dict(os.environ)
        env.pop("ROPEWAY_TRACE", None)
        if trace:
            env["ROPEWAY_TRACE"] = recorded
        text = subprocess.run(command, check=True, capture_output=True, text=True, env=env).stdout
        size = sum(os.path.getsize(os.path.join(recorded, name)) for name in os.listdir(recorded))
    for line in text.splitlines():
        name, value = line.split()
        found.setdefault(name, []).append(float(value))
    return found, size


def main(toolkit, program, rounds):
    plain, traced, recorded = {}, {}, 0
    for _ in range(rounds):
        for to, trace in ((plain, False), (traced, True)):
            numbers, size = run([f"{toolkit}/bin/ropeway", "run", program], trace)
            recorded = max(recorded, size)
            for name, values in numbers.items():
                to.setdefault(name, []).extend(values)
    rows = [
        ("bulk", "256 MiB", 1e3, "ms", 1, "1.1 x"),
        ("untouched", "64 B, a synchronisation after 64 of them", 1e9, "ns", 1, "100 ns a task"),
        ("touched", "64 B and a synchronisation", 1e9, "ns", 2, "100 ns a task and call"),
        ("same", "a million copies of 64 B", 1e3, "ms", 1, "100 ms"),
    ]
    print("| | not recorded | recorded | ratio | more | asked |\n|---|---|---|---|---|---|")
    for name, what, unit, label, calls, asked in rows:
        a, b = min(plain[name]), min(traced[name])
        print(f"| {what} | {a * unit:.0f} {label} | {b * unit:.0f} {label} | {b / a:.2f} | {(b - a) * unit / calls:.0f} {label} | {asked} |")
    a, b = max(plain["grown"]) / 1024, max(traced["grown"]) / 1024
    print(f"| memory that two million tasks take | {a:.0f} MiB | {b:.0f} MiB | | | bounded |")
    print(f"\nA run recorded {recorded >> 20} MiB.")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 3)
