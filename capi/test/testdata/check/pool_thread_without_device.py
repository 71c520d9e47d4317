"""A thread of a pool allocates without having set a device, and gets 107002.

finds: wrong-context (error)
offence: called acl.rt.malloc in take at OFFENCE
"""

import concurrent.futures

import acl

from program import FIXED, HUGE_FIRST, finish, ok, start


def take(context):
    if FIXED:
        ok(acl.rt.set_context(context))
    pointer, ret = acl.rt.malloc(1024, HUGE_FIRST)  # OFFENCE
    if ret == 0:
        ok(acl.rt.free(pointer))


def main():
    stream = start()
    context = ok(acl.rt.get_context())
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        pool.submit(take, context).result()
    finish(stream)


main()
