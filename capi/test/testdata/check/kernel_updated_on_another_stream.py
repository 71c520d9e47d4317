"""A captured step is executed with the length of the next sequence, which its kernel gets on a stream of its own. The execution does not wait for that.

finds: stream-race (error)
offence: submitted acl.rt.mdl_ri_execute_async in main at OFFENCE on stream 1, task 1
other: submitted acl.rt.launch_kernel_with_host_args in launch at SUBMIT on stream 2, task 1
other: captured acl.rt.launch_kernel_with_host_args in launch at SUBMIT
"""

import ctypes
import struct

import acl

from program import FIXED, HUGE_FIRST, finish, ok, start

SIZE = 16384
GLOBAL = 0


def fill(block, result, size):
    """The kernel: a Python function, for this test."""
    ctypes.memset(result, 7, size)


def launch(kernel, result, size, stream):
    args = struct.pack("2Q", result, size)
    ok(acl.rt.launch_kernel_with_host_args(kernel, 1, stream, [], acl.util.bytes_to_ptr(args), len(args), [], 0))  # SUBMIT


def main():
    stream = start()
    binary = ok(acl.util.load_kernels({"fill": fill}))
    kernel = ok(acl.rt.binary_get_function(binary, "fill"))
    updates = ok(acl.rt.create_stream())
    updated = ok(acl.rt.create_event())
    result = ok(acl.rt.malloc(SIZE, HUGE_FIRST))

    ok(acl.rt.mdl_ri_capture_begin(stream, GLOBAL))
    ok(acl.rt.mdl_ri_capture_task_grp_begin(stream))
    launch(kernel, result, SIZE // 2, stream)
    group = ok(acl.rt.mdl_ri_capture_task_grp_end(stream))
    step = ok(acl.rt.mdl_ri_capture_end(stream))

    ok(acl.rt.mdl_ri_capture_task_update_begin(updates, group))
    launch(kernel, result, SIZE, updates)
    ok(acl.rt.mdl_ri_capture_task_update_end(updates))
    ok(acl.rt.record_event(updated, updates))
    if FIXED:
        ok(acl.rt.stream_wait_event(stream, updated))
    ok(acl.rt.mdl_ri_execute_async(step, stream))  # OFFENCE

    ok(acl.rt.synchronize_stream(stream))
    ok(acl.rt.synchronize_stream(updates))
    ok(acl.rt.mdl_ri_destroy(step))
    ok(acl.rt.free(result))
    ok(acl.rt.binary_unload(binary))
    ok(acl.rt.destroy_event(updated))
    ok(acl.rt.destroy_stream(updates))
    finish(stream)


main()
