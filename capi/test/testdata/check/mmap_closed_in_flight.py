"""A mapping is registered and closed while a copy into it is pending.

finds: free-in-flight (error)
offence: freed munmap in fetch at OFFENCE
other: submitted acl.rt.memcpy_async in fetch at SUBMIT on stream 1, task 1
other: allocated acl.rt.host_register in fetch at ALLOCATED
bytes: 0+16384 of registered 16384
"""

import ctypes
import mmap

import acl

from program import D2H, FIXED, HUGE_FIRST, finish, ok, start

SIZE = 16384


def fetch(device, stream):
    shared = mmap.mmap(-1, SIZE)
    view = (ctypes.c_char * SIZE).from_buffer(shared)
    host = ctypes.addressof(view)
    del view
    ok(acl.rt.host_register(host, SIZE, acl.ACL_HOST_REGISTER_MAPPED))  # ALLOCATED
    ok(acl.rt.memcpy_async(host, SIZE, device, SIZE, D2H, stream))  # SUBMIT
    if FIXED:
        ok(acl.rt.synchronize_stream(stream))
        ok(acl.rt.host_unregister(host))
    shared.close()  # OFFENCE
    return host


def main():
    stream = start()
    device = ok(acl.rt.malloc(SIZE, HUGE_FIRST))
    ok(acl.rt.memset(device, SIZE, 1, SIZE))
    host = fetch(device, stream)
    ok(acl.rt.synchronize_stream(stream))
    if not FIXED:
        ok(acl.rt.host_unregister(host))
    ok(acl.rt.free(device))
    finish(stream)


main()
