"""The last of the pages that go up together is shorter than the others, and counts as a whole one.

finds: out-of-bounds (error)
offence: called acl.rt.memcpy_batch in main at OFFENCE
other: allocated acl.rt.malloc in main at ALLOCATED
bytes: 28672+4096 of device 30720
"""

import acl

from program import DEVICE, FIXED, HOST, HUGE_FIRST, finish, ok, start

CACHE, PAGE = 30720, 4096


def main():
    stream = start()
    host = ok(acl.rt.malloc_host(8 * PAGE))
    cache = ok(acl.rt.malloc(CACHE, HUGE_FIRST))  # ALLOCATED
    offsets = range(0, CACHE, PAGE)
    sizes = [min(PAGE, CACHE - offset) if FIXED else PAGE for offset in offsets]
    dsts, srcs = [cache + offset for offset in offsets], [host + offset for offset in offsets]
    acl.rt.memcpy_batch(dsts, sizes, srcs, sizes, [{"dstLoc": DEVICE, "srcLoc": HOST}], [0])  # OFFENCE
    ok(acl.rt.free_host(host))
    ok(acl.rt.free(cache))
    finish(stream)


main()
