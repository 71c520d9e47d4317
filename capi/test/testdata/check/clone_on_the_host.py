"""A pinned buffer is cloned with memcpy_async, and the code of the refusal is thrown away.

finds: host-to-host-async (error)
offence: called acl.rt.memcpy_async in clone at OFFENCE
"""

import acl

from program import FIXED, H2H, finish, ok, start

SIZE = 640


def clone(source, stream):
    copy = ok(acl.rt.malloc_host(SIZE))
    if FIXED:
        ok(acl.rt.memcpy(copy, SIZE, source, SIZE, H2H))
    else:
        acl.rt.memcpy_async(copy, SIZE, source, SIZE, H2H, stream)  # OFFENCE
    return copy


def main():
    stream = start()
    source = ok(acl.rt.malloc_host(SIZE))
    copy = clone(source, stream)
    ok(acl.rt.synchronize_stream(stream))
    ok(acl.rt.free_host(copy))
    ok(acl.rt.free_host(source))
    finish(stream)


main()
