"""The memory of a NumPy array is pageable, so the copy from it is not asynchronous. malloc_host gives memory that is not.

finds: pageable-async (warning)
offence: called acl.rt.memcpy_async in main at OFFENCE
needs: numpy
"""

import acl
import numpy

from program import FIXED, H2D, HUGE_FIRST, finish, ok, start

COUNT = 1024
SIZE = COUNT * 4


def aligned(count):
    """An array that begins at a multiple of 64."""
    room = numpy.zeros(count + 16, numpy.float32)
    skip = -acl.util.numpy_contiguous_to_ptr(room)[0] % 64 // 4
    return room[skip : skip + count]


def main():
    stream = start()
    pinned = ok(acl.rt.malloc_host(SIZE))
    array = aligned(COUNT)
    source = pinned if FIXED else acl.util.numpy_contiguous_to_ptr(array)[0]
    device = ok(acl.rt.malloc(SIZE, HUGE_FIRST))
    ok(acl.rt.memcpy_async(device, SIZE, source, SIZE, H2D, stream))  # OFFENCE
    ok(acl.rt.synchronize_stream(stream))
    ok(acl.rt.free(device))
    ok(acl.rt.free_host(pinned))
    finish(stream)


main()
