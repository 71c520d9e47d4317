"""Rows are gathered into a pinned array, and each is 64 bytes longer than the room it has.

finds: batch-overlap (error)
offence: submitted acl.rt.memcpy_batch_async in gather at OFFENCE on stream 1, task 1
other: allocated acl.rt.malloc_host in main at ALLOCATED
bytes: 448+64 of pinned 1792
"""

import acl

from program import DEVICE, FIXED, HOST, HUGE_FIRST, finish, ok, start

ROW, ROWS = 512, 3
ROOM = ROW if FIXED else ROW - 64


def gather(host, device, stream):
    dsts = [host + i * ROOM for i in range(ROWS)]
    srcs = [device + i * ROW for i in reversed(range(ROWS))]
    sizes = [ROW] * ROWS
    down = {"dstLoc": HOST, "srcLoc": DEVICE}
    ok(acl.rt.memcpy_batch_async(dsts, sizes, srcs, sizes, [down], [0], stream))  # OFFENCE
    ok(acl.rt.synchronize_stream(stream))


def main():
    stream = start()
    host = ok(acl.rt.malloc_host(ROW * ROWS + 256))  # ALLOCATED
    device = ok(acl.rt.malloc(ROW * ROWS, HUGE_FIRST))
    ok(acl.rt.memset(device, ROW * ROWS, 1, ROW * ROWS))
    gather(host, device, stream)
    ok(acl.rt.free_host(host))
    ok(acl.rt.free(device))
    finish(stream)


main()
