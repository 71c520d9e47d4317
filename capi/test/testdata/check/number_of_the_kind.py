"""pyACL has no names for the kinds, so people write numbers: 1 is up, 2 is down, and this one is wrong.

finds: wrong-direction (error)
offence: called acl.rt.memcpy in main at OFFENCE
"""

import acl

from program import FIXED, HUGE_FIRST, finish, ok, start

SIZE = 256


def main():
    stream = start()
    host = ok(acl.rt.malloc_host(SIZE))
    device = ok(acl.rt.malloc(SIZE, HUGE_FIRST))
    ok(acl.rt.memset(device, SIZE, 1, SIZE))
    ok(acl.rt.memcpy(host, SIZE, device, SIZE, 2 if FIXED else 1))  # OFFENCE
    ok(acl.rt.free_host(host))
    ok(acl.rt.free(device))
    finish(stream)


main()
