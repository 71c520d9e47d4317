"""close frees the pinned buffer, and so does the finally around it.

finds: double-free (error)
offence: called acl.rt.free_host in main at OFFENCE
other: freed acl.rt.free_host in close at FREED
other: allocated acl.rt.malloc_host in main at ALLOCATED
bytes: 0+128 of pinned 128
"""

import acl

from program import FIXED, finish, ok, start


def close(buffer):
    ok(acl.rt.free_host(buffer))  # FREED


def main():
    stream = start()
    buffer = ok(acl.rt.malloc_host(128))  # ALLOCATED
    try:
        close(buffer)
    finally:
        if not FIXED:
            acl.rt.free_host(buffer)  # OFFENCE
    finish(stream)


main()
