"""The last block of a cache is copied with the size of a full one, past the end of the memory.

finds: out-of-bounds (error)
offence: called acl.rt.memcpy_async in fetch at OFFENCE
other: allocated acl.rt.malloc in main at ALLOCATED
bytes: 4096+4096 of device 6144
"""

import acl

from program import D2H, FIXED, HUGE_FIRST, finish, ok, start

CACHE, BLOCK = 6144, 4096


def fetch(host, cache, stream):
    for offset in range(0, CACHE, BLOCK):
        size = min(BLOCK, CACHE - offset) if FIXED else BLOCK
        acl.rt.memcpy_async(host + offset, size, cache + offset, size, D2H, stream)  # OFFENCE
    ok(acl.rt.synchronize_stream(stream))


def main():
    stream = start()
    host = ok(acl.rt.malloc_host(2 * BLOCK))
    cache = ok(acl.rt.malloc(CACHE, HUGE_FIRST))  # ALLOCATED
    ok(acl.rt.memset(cache, CACHE, 1, CACHE))
    fetch(host, cache, stream)
    ok(acl.rt.free_host(host))
    ok(acl.rt.free(cache))
    finish(stream)


main()
