"""Workers of multiprocessing with "fork" inherit an initialised library and use it.

finds: fork-after-init (error)
offence: called acl.rt.malloc in load at OFFENCE
"""

import multiprocessing

import acl

from program import FIXED, HUGE_FIRST, finish, ok, start


def load(number):
    if FIXED:
        ok(acl.rt.set_device(0))
    pointer, ret = acl.rt.malloc(1024, HUGE_FIRST)  # OFFENCE
    if ret == 0:
        ok(acl.rt.free(pointer))
        ok(acl.rt.reset_device(0))
    return number


if __name__ == "__main__":
    stream = start()
    with multiprocessing.get_context("spawn" if FIXED else "fork").Pool(1) as pool:
        print(pool.map(load, range(2)))
        pool.close()
        pool.join()
    finish(stream)
