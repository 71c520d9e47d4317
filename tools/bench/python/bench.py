"""Measures acl from Python, in one process: small copies against a memmove by ctypes, batches against the C call with arrays that
are ready. What is compared runs in turn, round by round; medians are set against each other.

    bench.py [rounds]
"""

import ctypes
import gc
import os
import platform
import statistics
import sys
import time
from array import array
from ctypes import byref, c_size_t, c_void_p
from itertools import repeat

import acl
from acl import _library, rt
from acl._structs import aclrtMemcpyBatchAttr

MOST_ROUNDS = 1000
CALLS = 20000  # of a small copy, a round
BATCHES = 20  # a round
SEGMENTS, SEGMENT = 4096, 256
H2D = acl.ACL_MEMCPY_HOST_TO_DEVICE
SIZE_MAX = 2**64 - 1


def need(result):
    """The results of a call that has to succeed."""
    *values, ret = result if isinstance(result, tuple) else (result,)
    if ret:
        sys.exit(f"bench: error {ret}\n{acl.get_recent_err_msg()}")
    return values[0] if len(values) == 1 else tuple(values)


def medians(rounds, contenders):
    """Runs all contenders in each round; a slow moment hits all of them. The first round warms up."""
    times = [[contender() for contender in contenders] for _ in range(rounds + 1)][1:]
    return [statistics.median(column) for column in zip(*times)]


def row(name, ours, base, asked=""):
    print(f"{name:<52} {ours:8.0f} ns {base:8.0f} ns {ours / base:8.2f} {asked:>10}", flush=True)


def repeated(call, *arguments, then=lambda: None):
    """A contender: CALLS calls; the nanoseconds of one. then is not measured."""

    def contender():
        start = time.perf_counter_ns()
        for _ in repeat(None, CALLS):
            call(*arguments)
        taken = time.perf_counter_ns() - start
        then()
        return taken / CALLS

    return contender


def small(rounds, stream, device, host):
    def synchronise():
        need(rt.synchronize_stream(stream))

    def submit_and_synchronise(*arguments):
        rt.memcpy_async(*arguments)
        rt.synchronize_stream(stream)

    copy = (device, 4096, host, 64, H2D, stream)
    need(rt.memcpy_async(*copy))
    mine = ctypes.create_string_buffer(128)
    base, submit, both, idle = medians(
        rounds,
        [
            repeated(ctypes.memmove, ctypes.addressof(mine), ctypes.addressof(mine) + 64, 64),
            repeated(rt.memcpy_async, *copy, then=synchronise),
            repeated(submit_and_synchronise, *copy),
            repeated(rt.synchronize_stream, stream),
        ],
    )
    row("64 B memcpy_async / ctypes.memmove", submit, base, "<= 1000 ns")
    row("64 B memcpy_async + synchronize_stream / memmove", both, base)
    row("synchronize_stream of an idle stream / memmove", idle, base)


def batch(rounds, stream):
    size = SEGMENTS * SEGMENT
    host, device = need(rt.malloc_host(size)), need(rt.malloc(size, 0))
    places = [i * 1021 % SEGMENTS for i in range(SEGMENTS)]  # scattered, each taken once
    srcs = [host + i * SEGMENT for i in range(SEGMENTS)]
    dsts = [device + p * SEGMENT for p in places]
    sizes = [SEGMENT] * SEGMENTS
    up = {"dstLoc": {"id": 0, "type": 1}, "srcLoc": {"id": 0, "type": 0}}

    c_call = _library.library["aclrtMemcpyBatchAsync"]
    c_call.argtypes = [c_void_p] * 4 + [c_size_t, c_void_p, c_void_p, c_size_t, c_void_p, c_void_p]
    c_dsts, c_srcs, c_sizes = ((ctypes.c_uint64 * SEGMENTS)(*values) for values in (dsts, srcs, sizes))
    attr = aclrtMemcpyBatchAttr()
    attr.dstLoc.type, attr.srcLoc.type = 1, 0
    first, fail_index = c_size_t(0), c_size_t(0)
    ready = (c_dsts, c_sizes, c_srcs, c_sizes, SEGMENTS, byref(attr), byref(first), 1, byref(fail_index), stream)
    arrays = [array("Q", values) for values in (dsts, srcs, sizes)]

    def timed(call, *arguments, good):
        def contender():
            taken = 0
            for _ in range(BATCHES):
                start = time.perf_counter_ns()
                result = call(*arguments)
                taken += time.perf_counter_ns() - start
                if result != good:
                    sys.exit(f"bench: a batch returns {result}\n{acl.get_recent_err_msg()}")
                need(rt.synchronize_stream(stream))
            return taken / BATCHES / SEGMENTS

        return contender

    python = rt.memcpy_batch_async
    base, lists, buffers = medians(
        rounds,
        [
            timed(c_call, *ready, good=0),
            timed(python, dsts, sizes, srcs, sizes, [up], [0], stream, good=(SIZE_MAX, 0)),
            timed(python, arrays[0], arrays[2], arrays[1], arrays[2], [up], [0], stream, good=(SIZE_MAX, 0)),
        ],
    )
    print(f"\nbatch of {SEGMENTS} x {SEGMENT} B, a segment: what Python adds, against the C call with arrays that are ready")
    row("  memcpy_batch_async with lists", lists - base, base, "< 300 ns")
    row("  with array.array", buffers - base, base, "< 300 ns")
    need(rt.free(device))
    need(rt.free_host(host))


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    if not 1 <= rounds <= MOST_ROUNDS:
        sys.exit(f"bench: rounds must be 1 to {MOST_ROUNDS}")
    need(acl.init())
    need(rt.set_device(0))
    stream = need(rt.create_stream())
    host, device = need(rt.malloc_host(4096)), need(rt.malloc(4096, 0))
    gc.disable()
    print(f"acl from Python {platform.python_version()}, {rounds} rounds, medians")
    print(f"{os.cpu_count()} CPUs, {os.getloadavg()[0]:.1f} processes wanted one in the last minute\n")
    print(f"{'row':<52} {'ropeway':>11} {'baseline':>11} {'ratio':>8} {'asked':>10}")
    small(rounds, stream, device, host)
    batch(rounds, stream)
    need(rt.free(device))
    need(rt.free_host(host))
    need(rt.destroy_stream(stream))
    need(rt.reset_device(0))
    need(acl.finalize())


if __name__ == "__main__":
    main()
