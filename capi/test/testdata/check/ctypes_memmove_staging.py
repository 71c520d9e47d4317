"""New data is moved over a pinned source while its copy is pending. ctypes.memmove writes it.

finds: host-write-in-flight (error)
offence: written in put at OFFENCE
other: submitted acl.rt.memcpy_async in put at SUBMIT on stream 1, task 1
other: allocated acl.rt.malloc_host in main at ALLOCATED
bytes: ?+? of pinned 4096
"""

import ctypes

import acl

from program import FIXED, H2D, HUGE_FIRST, finish, ok, start

SIZE = 4096


def put(data, staging, device, stream):
    ctypes.memmove(staging, data, len(data))  # OFFENCE
    ok(acl.rt.memcpy_async(device, SIZE, staging, SIZE, H2D, stream))  # SUBMIT


def main():
    stream = start()
    staging = ok(acl.rt.malloc_host(SIZE))  # ALLOCATED
    device = ok(acl.rt.malloc(SIZE, HUGE_FIRST))

    put(b"first" * 800, staging, device, stream)
    if FIXED:
        ok(acl.rt.synchronize_stream(stream))
    put(b"again" * 800, staging, device, stream)

    ok(acl.rt.synchronize_stream(stream))
    ok(acl.rt.free_host(staging))
    ok(acl.rt.free(device))
    finish(stream)


main()
