"""A kernel is launched after its binary was unloaded: the function that was looked up before goes with the binary.

finds: use-after-free (error)
offence: called acl.rt.launch_kernel_with_host_args in compute at OFFENCE
other: unloaded acl.rt.binary_unload in main at UNLOADED
"""

import ctypes
import struct

import acl

from program import FIXED, HUGE_FIRST, finish, ok, start

SIZE = 4096


def fill(block, result, size):
    """The kernel: a Python function, for this test."""
    ctypes.memset(result, 7, size)


def compute(kernel, result, stream):
    args = struct.pack("2Q", result, SIZE)
    return acl.rt.launch_kernel_with_host_args(kernel, 1, stream, [], acl.util.bytes_to_ptr(args), len(args), [], 0)  # OFFENCE


def main():
    stream = start()
    binary = ok(acl.util.load_kernels({"fill": fill}))
    kernel = ok(acl.rt.binary_get_function(binary, "fill"))
    result = ok(acl.rt.malloc(SIZE, HUGE_FIRST))
    if FIXED:
        ok(compute(kernel, result, stream))
        ok(acl.rt.synchronize_stream(stream))
    ok(acl.rt.binary_unload(binary))  # UNLOADED
    if not FIXED and compute(kernel, result, stream) == 0:
        raise SystemExit("the launch succeeded")
    ok(acl.rt.free(result))
    finish(stream)


main()
