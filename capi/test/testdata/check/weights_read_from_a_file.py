"""The next part of a file is read straight into the pinned buffer of the last one: readinto is the system call read.

finds: host-write-in-flight (error)
offence: written in load at OFFENCE
other: submitted acl.rt.memcpy_async in load at SUBMIT on stream 1, task 1
other: allocated acl.rt.malloc_host in main at ALLOCATED
bytes: 0+4096 of pinned 4096
"""

import ctypes
import tempfile

import acl

from program import FIXED, H2D, HUGE_FIRST, finish, ok, start

PART = 4096


def load(file, view, pinned, device, stream):
    file.readinto(view)  # OFFENCE
    ok(acl.rt.memcpy_async(device, PART, pinned, PART, H2D, stream))  # SUBMIT


def main():
    stream = start()
    pinned = ok(acl.rt.malloc_host(PART))  # ALLOCATED
    view = (ctypes.c_char * PART).from_address(pinned)
    device = ok(acl.rt.malloc(2 * PART, HUGE_FIRST))
    with tempfile.TemporaryFile(buffering=0) as file:
        file.write(bytes(2 * PART))
        file.seek(0)
        for part in range(2):
            load(file, view, pinned, device + part * PART, stream)
            if FIXED:
                ok(acl.rt.synchronize_stream(stream))

    ok(acl.rt.synchronize_stream(stream))
    ok(acl.rt.free_host(pinned))
    ok(acl.rt.free(device))
    finish(stream)


main()
