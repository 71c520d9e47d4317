"""A reset of the device's scratch memory clears a descriptor that lies in it.

finds: unset-descriptor (error)
offence: submitted acl.rt.memcpy_async_with_desc in main at OFFENCE on stream 1, task 2
other: allocated acl.rt.malloc in main at ALLOCATED
bytes: 1024+32 of device 2048
"""

import acl

from program import FIXED, HUGE_FIRST, finish, ok, start

SCRATCH, SIZE = 2048, 256
INNER = 6


def main():
    stream = start()
    scratch = ok(acl.rt.malloc(SCRATCH, HUGE_FIRST))  # ALLOCATED
    target = ok(acl.rt.malloc(SIZE, HUGE_FIRST))
    ticket = scratch + 1024
    ok(acl.rt.memset(scratch, SCRATCH, 0, SCRATCH))
    ok(acl.rt.set_memcpy_desc(ticket, INNER, scratch, target, SIZE, 0))
    cleared = 1024 if FIXED else SCRATCH
    ok(acl.rt.memset_async(scratch, SCRATCH, 0, cleared, stream))
    ok(acl.rt.memcpy_async_with_desc(ticket, INNER, stream))  # OFFENCE
    acl.rt.synchronize_stream(stream)  # a copy with such a descriptor fails while it runs

    ok(acl.rt.free(target))
    ok(acl.rt.free(scratch))
    finish(stream)


main()
