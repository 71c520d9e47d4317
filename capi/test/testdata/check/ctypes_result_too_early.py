"""A result is looked at through ctypes while the copy into it is pending.

finds: host-read-in-flight (error)
offence: read in main at OFFENCE
other: submitted acl.rt.memcpy_async in main at SUBMIT on stream 1, task 1
other: allocated acl.rt.malloc_host in main at ALLOCATED
bytes: 64+? of pinned 128
"""

import ctypes

import acl

from program import D2H, FIXED, HUGE_FIRST, finish, ok, start

SIZE = 128


def main():
    stream = start()
    result = ok(acl.rt.malloc_host(SIZE))  # ALLOCATED
    scores = (ctypes.c_int64 * (SIZE // 8)).from_address(result)
    device = ok(acl.rt.malloc(SIZE, HUGE_FIRST))
    ok(acl.rt.memset(device, SIZE, 0, SIZE))

    ok(acl.rt.memcpy_async(result, SIZE, device, SIZE, D2H, stream))  # SUBMIT
    if FIXED:
        ok(acl.rt.synchronize_stream(stream))
    print("score", scores[8])  # OFFENCE

    ok(acl.rt.synchronize_stream(stream))
    ok(acl.rt.free_host(result))
    ok(acl.rt.free(device))
    finish(stream)


main()
