"""A ctypes array is made of an address that acl.rt.malloc returned, and read.

finds: device-memory-on-host (error)
offence: read in best at OFFENCE
other: allocated acl.rt.malloc in main at ALLOCATED
bytes: 40+? of device 128
"""

import ctypes

import acl

from program import D2H, FIXED, HUGE_FIRST, finish, ok, start

SIZE = 128


def best(address):
    scores = (ctypes.c_int64 * (SIZE // 8)).from_address(address)
    return scores[5]  # OFFENCE


def main():
    stream = start()
    result = ok(acl.rt.malloc_host(SIZE))
    device = ok(acl.rt.malloc(SIZE, HUGE_FIRST))  # ALLOCATED
    ok(acl.rt.memset(device, SIZE, 0, SIZE))
    if FIXED:
        ok(acl.rt.memcpy(result, SIZE, device, SIZE, D2H))
        print("score", best(result))
    else:
        print("score", best(device))
    ok(acl.rt.free_host(result))
    ok(acl.rt.free(device))
    finish(stream)


main()
