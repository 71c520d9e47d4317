"""A second stream takes part in the capture, and nothing waits for its end: aclmdlRICaptureEnd returns 107025.

finds: broken-capture (error)
offence: called acl.rt.mdl_ri_capture_end in main at OFFENCE
other: began acl.rt.mdl_ri_capture_begin in main at BEGAN
other: joined acl.rt.stream_wait_event in main at JOINED
"""

import acl

from program import FIXED, H2D, HUGE_FIRST, finish, ok, start

SIZE = 4096
RELAXED = 2


def main():
    stream = start()
    side = ok(acl.rt.create_stream())
    fork, join = (ok(acl.rt.create_event_ex_with_flag(acl.ACL_EVENT_SYNC)) for _ in range(2))
    host, device, other = ok(acl.rt.malloc_host(SIZE)), ok(acl.rt.malloc(SIZE, HUGE_FIRST)), ok(acl.rt.malloc(SIZE, HUGE_FIRST))
    step = None

    ok(acl.rt.mdl_ri_capture_begin(stream, RELAXED))  # BEGAN
    ok(acl.rt.record_event(fork, stream))
    ok(acl.rt.stream_wait_event(side, fork))  # JOINED
    ok(acl.rt.memcpy_async(device, SIZE, host, SIZE, H2D, stream))
    ok(acl.rt.memcpy_async(other, SIZE, host, SIZE, H2D, side))
    if FIXED:
        ok(acl.rt.record_event(join, side))
        ok(acl.rt.stream_wait_event(stream, join))
    step, code = acl.rt.mdl_ri_capture_end(stream)  # OFFENCE
    if code == 0:
        ok(acl.rt.mdl_ri_execute_async(step, stream))
        ok(acl.rt.synchronize_stream(stream))
        ok(acl.rt.mdl_ri_destroy(step))

    for event in fork, join:
        ok(acl.rt.destroy_event(event))
    ok(acl.rt.destroy_stream(side))
    ok(acl.rt.free_host(host))
    ok(acl.rt.free(device))
    ok(acl.rt.free(other))
    finish(stream)


main()
