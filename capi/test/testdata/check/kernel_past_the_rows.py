"""A kernel scales one row more than there is.

finds: out-of-bounds (error)
offence: submitted acl.rt.launch_kernel_with_host_args in scale at OFFENCE on stream 1, task 1
other: allocated acl.rt.malloc in main at ALLOCATED
bytes: 4096+1024 of device 4096
"""

import struct

import acl

from program import FIXED, HUGE_FIRST, finish, ok, start

ROW, ROWS = 1024, 4


def scale_rows(block, rows, count):
    """The kernel: a Python function, for this test."""
    block.writes(rows, count * ROW)


def scale(kernel, rows, count, stream):
    args = struct.pack("2Q", rows, count)
    ok(acl.rt.launch_kernel_with_host_args(kernel, 2, stream, [], acl.util.bytes_to_ptr(args), len(args), [], 0))  # OFFENCE


def main():
    stream = start()
    binary = ok(acl.util.load_kernels({"scale_rows": scale_rows}))
    kernel = ok(acl.rt.binary_get_function(binary, "scale_rows"))
    rows = ok(acl.rt.malloc(ROW * ROWS, HUGE_FIRST))  # ALLOCATED
    scale(kernel, rows, ROWS if FIXED else ROWS + 1, stream)
    ok(acl.rt.synchronize_stream(stream))
    ok(acl.rt.free(rows))
    ok(acl.rt.binary_unload(binary))
    finish(stream)


main()
