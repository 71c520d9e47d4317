"""Three of four heads are written, and all four are read back.

finds: uninitialised-read (warning)
offence: called acl.rt.memcpy in main at OFFENCE
other: allocated acl.rt.malloc in main at ALLOCATED
bytes: 768+256 of device 1024
"""

import acl

from program import D2H, FIXED, HUGE_FIRST, finish, ok, start

HEAD, HEADS = 256, 4


def main():
    stream = start()
    host = ok(acl.rt.malloc_host(HEAD * HEADS))
    heads = ok(acl.rt.malloc(HEAD * HEADS, HUGE_FIRST))  # ALLOCATED
    for i in range(HEADS if FIXED else HEADS - 1):
        ok(acl.rt.memset(heads + i * HEAD, HEAD, i, HEAD))
    ok(acl.rt.memcpy(host, HEAD * HEADS, heads, HEAD * HEADS, D2H))  # OFFENCE
    ok(acl.rt.free_host(host))
    ok(acl.rt.free(heads))
    finish(stream)


main()
