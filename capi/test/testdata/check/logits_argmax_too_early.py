"""The next token is chosen from logits that are still on their way. NumPy reads them, and
faulthandler, which pytest switches on too, does not mind.

finds: host-read-in-flight (error)
offence: read in next_token at OFFENCE
other: submitted acl.rt.memcpy_async in main at SUBMIT on stream 1, task 1
other: allocated acl.rt.malloc_host in main at ALLOCATED
bytes: ?+? of pinned 4096
needs: numpy
"""

import faulthandler

import acl
import numpy

from program import D2H, FIXED, HUGE_FIRST, finish, ok, start

VOCABULARY = 1024
SIZE = VOCABULARY * 4


def next_token(logits):
    return int(logits.argmax())  # OFFENCE


def main():
    faulthandler.enable()
    stream = start()
    pinned = ok(acl.rt.malloc_host(SIZE))  # ALLOCATED
    logits = acl.util.ptr_to_numpy(pinned, (VOCABULARY,), numpy.dtype(numpy.float32).num)
    device = ok(acl.rt.malloc(SIZE, HUGE_FIRST))
    ok(acl.rt.memset(device, SIZE, 0, SIZE))

    ok(acl.rt.memcpy_async(pinned, SIZE, device, SIZE, D2H, stream))  # SUBMIT
    if FIXED:
        ok(acl.rt.synchronize_stream(stream))
    print("token", next_token(logits))

    ok(acl.rt.synchronize_stream(stream))
    ok(acl.rt.free_host(pinned))
    ok(acl.rt.free(device))
    finish(stream)


main()
