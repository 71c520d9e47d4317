"""A write and a read request are put into one batch, to save a call.

finds: mixed-directions (error)
offence: called acl.rt.memcpy_batch_async in main at OFFENCE
"""

import acl

from program import DEVICE, FIXED, HOST, HUGE_FIRST, finish, ok, start

SIZE = 512


def main():
    stream = start()
    host = ok(acl.rt.malloc_host(2 * SIZE))
    device = ok(acl.rt.malloc(2 * SIZE, HUGE_FIRST))
    ok(acl.rt.memset(device, 2 * SIZE, 1, 2 * SIZE))
    up, down = {"dstLoc": DEVICE, "srcLoc": HOST}, {"dstLoc": HOST, "srcLoc": DEVICE}
    if FIXED:
        ok(acl.rt.memcpy_batch_async([device], [SIZE], [host], [SIZE], [up], [0], stream))
        ok(acl.rt.memcpy_batch_async([host + SIZE], [SIZE], [device + SIZE], [SIZE], [down], [0], stream))
    else:
        dsts, srcs, sizes = [device, host + SIZE], [host, device + SIZE], [SIZE, SIZE]
        acl.rt.memcpy_batch_async(dsts, sizes, srcs, sizes, [up, down], [0, 1], stream)  # OFFENCE
    ok(acl.rt.synchronize_stream(stream))
    ok(acl.rt.free_host(host))
    ok(acl.rt.free(device))
    finish(stream)


main()
