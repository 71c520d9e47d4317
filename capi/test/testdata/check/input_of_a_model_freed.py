"""The input buffer of a captured step is freed when a longer request needs a larger one, and the step is not captured again.

finds: stale-model (error)
offence: called acl.rt.mdl_ri_execute_async in run at OFFENCE
other: captured acl.rt.memcpy_async in capture at CAPTURED
other: allocated acl.rt.malloc_host in main at ALLOCATED
other: freed acl.rt.free_host in main at FREED
bytes: 0+4096 of pinned 4096
"""

import acl

from program import FIXED, H2D, HUGE_FIRST, finish, ok, start

SIZE = 4096


def capture(device, pinned, size, stream):
    ok(acl.rt.mdl_ri_capture_begin(stream, acl.ACL_MODEL_RI_CAPTURE_MODE_GLOBAL))
    ok(acl.rt.memcpy_async(device, size, pinned, size, H2D, stream))  # CAPTURED
    return ok(acl.rt.mdl_ri_capture_end(stream))


def run(step, stream):
    code = acl.rt.mdl_ri_execute_async(step, stream)  # OFFENCE
    if code != 0:
        print("the step does not run:", code)
    ok(acl.rt.synchronize_stream(stream))


def main():
    stream = start()
    pinned = ok(acl.rt.malloc_host(SIZE))  # ALLOCATED
    device = ok(acl.rt.malloc(2 * SIZE, HUGE_FIRST))
    step = capture(device, pinned, SIZE, stream)

    longer = ok(acl.rt.malloc_host(2 * SIZE))
    ok(acl.rt.free_host(pinned))  # FREED
    if FIXED:
        ok(acl.rt.mdl_ri_destroy(step))
        step = capture(device, longer, 2 * SIZE, stream)
    run(step, stream)

    ok(acl.rt.mdl_ri_destroy(step))
    ok(acl.rt.free_host(longer))
    ok(acl.rt.free(device))
    finish(stream)


main()
