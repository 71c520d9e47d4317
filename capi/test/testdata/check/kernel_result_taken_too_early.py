"""The result of a kernel, a function that does not say what it writes, is copied to the host without waiting for the stream.

finds: host-read-in-flight (error)
offence: read acl.rt.memcpy in take at OFFENCE
other: submitted acl.rt.launch_kernel_with_host_args in compute at SUBMIT on stream 1, task 1
other: allocated acl.rt.malloc in main at ALLOCATED
bytes: 0+16384 of device 16384
"""

import ctypes
import struct

import acl

from program import D2H, FIXED, HUGE_FIRST, finish, ok, start

SIZE = 16384


def fill(block, result, size):
    """The kernel: a Python function, for this test."""
    ctypes.memset(result, 7, size)


def compute(kernel, result, stream):
    args = struct.pack("2Q", result, SIZE)
    ok(acl.rt.launch_kernel_with_host_args(kernel, 1, stream, [], acl.util.bytes_to_ptr(args), len(args), [], 0))  # SUBMIT


def take(host, result):
    ok(acl.rt.memcpy(host, SIZE, result, SIZE, D2H))  # OFFENCE


def main():
    stream = start()
    binary = ok(acl.util.load_kernels({"fill": fill}))
    kernel = ok(acl.rt.binary_get_function(binary, "fill"))
    host = ok(acl.rt.malloc_host(SIZE))
    result = ok(acl.rt.malloc(SIZE, HUGE_FIRST))  # ALLOCATED
    compute(kernel, result, stream)
    if FIXED:
        ok(acl.rt.synchronize_stream(stream))
    take(host, result)
    ok(acl.rt.synchronize_stream(stream))
    ok(acl.rt.free(result))
    ok(acl.rt.free_host(host))
    ok(acl.rt.binary_unload(binary))
    finish(stream)


main()
