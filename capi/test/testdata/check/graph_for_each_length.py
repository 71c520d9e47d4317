"""A decoding step is captured for each length of the input. On 310P every captured stream takes one of the device's 1024.

finds: streams-used-up (warning)
offence: called acl.rt.mdl_ri_capture_begin in capture at CAPTURED
other: captured acl.rt.mdl_ri_capture_begin in capture at CAPTURED
other: made acl.rt.create_stream in start
options: --product 310P
"""

import acl

from program import FIXED, H2D, HUGE_FIRST, finish, ok, start

LONGEST = 1100
RELAXED = 2


def capture(length, stream, device, host):
    if acl.rt.mdl_ri_capture_begin(stream, RELAXED) != 0:  # CAPTURED
        return None
    ok(acl.rt.memcpy_async(device, LONGEST, host, length, H2D, stream))
    return ok(acl.rt.mdl_ri_capture_end(stream))


def main():
    stream = start()
    host, device = ok(acl.rt.malloc_host(LONGEST)), ok(acl.rt.malloc(LONGEST, HUGE_FIRST))
    graphs = {}
    for length in range(1, LONGEST + 1):
        if FIXED:
            length = min(-(-length // 64) * 64, LONGEST)  # one for 64 lengths
        if length not in graphs:
            graphs[length] = capture(length, stream, device, host)
        if graphs[length] is None:
            break
    for graph in graphs.values():
        if graph is not None:
            ok(acl.rt.mdl_ri_destroy(graph))
    ok(acl.rt.free_host(host))
    ok(acl.rt.free(device))
    finish(stream)


main()
