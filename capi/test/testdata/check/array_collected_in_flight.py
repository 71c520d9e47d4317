"""A registered array goes out of scope while its copy is pending, and Python frees its memory.

finds: free-in-flight (error)
offence: freed free in main at OFFENCE
other: submitted acl.rt.memcpy_async in upload at SUBMIT on stream 1, task 1
other: allocated acl.rt.host_register_v2 in upload at ALLOCATED
bytes: 0+65536 of registered 65536
needs: numpy
"""

import acl
import numpy as np

from program import FIXED, H2D, HUGE_FIRST, finish, ok, start

SIZE, PAGE = 65536, 4096


def upload(device, stream):
    weights = np.ones(SIZE + PAGE, dtype=np.uint8)
    host = -(-weights.ctypes.data // PAGE) * PAGE
    ok(acl.rt.host_register_v2(host, SIZE, acl.ACL_HOST_REG_PINNED))  # ALLOCATED
    ok(acl.rt.memcpy_async(device, SIZE, host, SIZE, H2D, stream))  # SUBMIT
    return host, weights if FIXED else None


def main():
    stream = start()
    device = ok(acl.rt.malloc(SIZE, HUGE_FIRST))
    host, weights = upload(device, stream)  # OFFENCE
    ok(acl.rt.synchronize_stream(stream))
    ok(acl.rt.host_unregister(host))
    del weights
    ok(acl.rt.free(device))
    finish(stream)


main()
