"""Prefill writes the cache on its stream while decode reads it on another.

finds: stream-race (error)
offence: submitted acl.rt.memcpy_async in decode at OFFENCE on stream 2, task 1
other: submitted acl.rt.memset_async in prefill at SUBMIT on stream 1, task 1
other: allocated acl.rt.malloc in main at ALLOCATED
bytes: 0+1024 of device 2048
"""

import acl

from program import D2D, FIXED, HUGE_FIRST, finish, ok, start

CACHE, STEP = 2048, 1024


def prefill(cache, stream):
    ok(acl.rt.memset_async(cache, CACHE, 1, CACHE, stream))  # SUBMIT


def decode(output, cache, stream):
    ok(acl.rt.memcpy_async(output, STEP, cache, STEP, D2D, stream))  # OFFENCE


def main():
    stream = start()
    other = ok(acl.rt.create_stream())
    filled = ok(acl.rt.create_event())
    cache = ok(acl.rt.malloc(CACHE, HUGE_FIRST))  # ALLOCATED
    ok(acl.rt.memset(cache, CACHE, 0, CACHE))
    output = ok(acl.rt.malloc(STEP, HUGE_FIRST))

    prefill(cache, stream)
    ok(acl.rt.record_event(filled, stream))
    if FIXED:
        ok(acl.rt.stream_wait_event(other, filled))
    decode(output, cache, other)

    ok(acl.rt.synchronize_device())
    ok(acl.rt.destroy_event(filled))
    ok(acl.rt.destroy_stream(other))
    ok(acl.rt.free(cache))
    ok(acl.rt.free(output))
    finish(stream)


main()
