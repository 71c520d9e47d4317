"""A device buffer is freed while a fill of it is pending: aclrtFree does not wait for the device.

finds: free-in-flight (error)
offence: freed acl.rt.free in main at OFFENCE
other: submitted acl.rt.memset_async in main at SUBMIT on stream 1, task 1
other: allocated acl.rt.malloc in main at ALLOCATED
bytes: 0+1024 of device 1024
"""

import acl

from program import FIXED, HUGE_FIRST, finish, ok, start

SIZE = 1024


def main():
    stream = start()
    tensor = ok(acl.rt.malloc(SIZE, HUGE_FIRST))  # ALLOCATED
    ok(acl.rt.memset_async(tensor, SIZE, 0, SIZE, stream))  # SUBMIT
    if FIXED:
        ok(acl.rt.synchronize_stream(stream))
    ok(acl.rt.free(tensor))  # OFFENCE

    ok(acl.rt.synchronize_stream(stream))
    finish(stream)


main()
