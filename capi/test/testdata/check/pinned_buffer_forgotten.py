"""An exception skips the line that frees a pinned buffer.

finds: leak (error)
offence: allocated acl.rt.malloc_host in load at ALLOCATED
bytes: 0+1048576 of pinned 1048576
"""

import acl

from program import FIXED, finish, ok, start

SIZE = 1 << 20


def load(path):
    buffer = ok(acl.rt.malloc_host(SIZE))  # ALLOCATED
    try:
        return open(path).read()
    except OSError:
        if FIXED:
            ok(acl.rt.free_host(buffer))
        raise


def main():
    stream = start()
    try:
        load("/there/is/no/such/file")
    except OSError:
        print("no such file")
    finish(stream)


main()
