"""Token ids of the next step are written into the pinned buffer of this one, whose copy is pending. One of the incidents:
"thousands of wrong token ids in one step".

finds: host-write-in-flight (error)
offence: written in step at OFFENCE
other: submitted acl.rt.memcpy_async in step at SUBMIT on stream 1, task 1
other: allocated acl.rt.malloc_host in main at ALLOCATED
bytes: ?+? of pinned 8192
needs: numpy
"""

import acl
import numpy

from program import FIXED, H2D, HUGE_FIRST, finish, ok, start

TOKENS = 2048
SIZE = TOKENS * 4


def step(number, token_ids, pinned, device, stream):
    token_ids[:] = number  # OFFENCE
    ok(acl.rt.memcpy_async(device, SIZE, pinned, SIZE, H2D, stream))  # SUBMIT
    if FIXED:
        ok(acl.rt.synchronize_stream(stream))


def main():
    stream = start()
    pinned = ok(acl.rt.malloc_host(SIZE))  # ALLOCATED
    token_ids = acl.util.ptr_to_numpy(pinned, (TOKENS,), numpy.dtype(numpy.int32).num)
    device = ok(acl.rt.malloc(SIZE, HUGE_FIRST))

    for number in range(2):
        step(number, token_ids, pinned, device, stream)

    ok(acl.rt.synchronize_stream(stream))
    ok(acl.rt.free_host(pinned))
    ok(acl.rt.free(device))
    finish(stream)


main()
