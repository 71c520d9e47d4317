"""A script ends after its last fill, without waiting for it.

finds: unsynchronised-exit (error)
offence: ended
other: submitted acl.rt.memset_async in main at SUBMIT on stream 0, task 1
options: --no-rule leak
"""

import acl

from program import FIXED, HUGE_FIRST, ok

SIZE = 64


def main():
    ok(acl.rt.set_device(0))
    buffer = ok(acl.rt.malloc(SIZE, HUGE_FIRST))
    ok(acl.rt.memset_async(buffer, SIZE, 0, SIZE, 0))  # SUBMIT
    if FIXED:
        ok(acl.rt.synchronize_device())


main()
