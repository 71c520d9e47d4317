"""A pinned buffer is freed, and the next request sends from it.

finds: use-after-free (error)
offence: called acl.rt.memcpy_async in send at OFFENCE
other: freed acl.rt.free_host in main at FREED
other: allocated acl.rt.malloc_host in main at ALLOCATED
bytes: 0+512 of pinned 512
"""

import acl

from program import FIXED, H2D, HUGE_FIRST, finish, ok, start

SIZE = 512


def send(device, pinned, stream):
    acl.rt.memcpy_async(device, SIZE, pinned, SIZE, H2D, stream)  # OFFENCE
    ok(acl.rt.synchronize_stream(stream))


def main():
    stream = start()
    device = ok(acl.rt.malloc(SIZE, HUGE_FIRST))
    pinned = ok(acl.rt.malloc_host(SIZE))  # ALLOCATED
    send(device, pinned, stream)
    if FIXED:
        send(device, pinned, stream)
    ok(acl.rt.free_host(pinned))  # FREED
    if not FIXED:
        send(device, pinned, stream)
    ok(acl.rt.free(device))
    finish(stream)


main()
