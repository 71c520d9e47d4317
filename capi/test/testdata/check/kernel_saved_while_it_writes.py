"""A result is saved on another stream than that of the kernel that makes it. The kernel, a function, does not say what it writes.

finds: stream-race (error)
offence: submitted acl.rt.memcpy_async in save at OFFENCE on stream 2, task 1
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


def save(host, result, stream):
    ok(acl.rt.memcpy_async(host, SIZE, result, SIZE, D2H, stream))  # OFFENCE


def main():
    stream = start()
    binary = ok(acl.util.load_kernels({"fill": fill}))
    kernel = ok(acl.rt.binary_get_function(binary, "fill"))
    other = ok(acl.rt.create_stream())
    host = ok(acl.rt.malloc_host(SIZE))
    result = ok(acl.rt.malloc(SIZE, HUGE_FIRST))  # ALLOCATED
    ok(acl.rt.memset(result, SIZE, 0, SIZE))
    compute(kernel, result, stream)
    save(host, result, stream if FIXED else other)
    ok(acl.rt.synchronize_stream(other))
    ok(acl.rt.synchronize_stream(stream))
    ok(acl.rt.free(result))
    ok(acl.rt.free_host(host))
    ok(acl.rt.destroy_stream(other))
    ok(acl.rt.binary_unload(binary))
    finish(stream)


main()
