"""A kernel between copies: two vectors go up, the device adds them, and the sum comes down, all on one stream.

    ret = acl.rt.launch_kernel_with_host_args(function, blocks, stream, [], args, size, [], 0)

Without an argument the kernel is the Python function below, which is for tests, and needs no compiler. With one, it is in that file:
vector_add.so of examples/c, or on an NPU what the vendor's compiler made.
"""

import struct
import sys

import acl
import numpy as np

from check import expect, ok

ACL_MEM_MALLOC_HUGE_FIRST = 0
ACL_MEMCPY_HOST_TO_DEVICE = 1
ACL_MEMCPY_DEVICE_TO_HOST = 2

N, BLOCKS = 1 << 16, 8
SIZE = 4 * N
FLOAT32 = np.dtype(np.float32).num


def vector_add(block, x, y, z, n):
    """Is called once for each block, with the arguments of the launch. While it runs, device memory can be used like an array's."""
    x, y, z = (acl.util.ptr_to_numpy(p, (n,), FLOAT32) for p in (x, y, z))
    mine = slice(block.idx * n // block.num, (block.idx + 1) * n // block.num)
    np.add(x[mine], y[mine], out=z[mine])


ok(acl.init())
ok(acl.rt.set_device(0))
stream = ok(acl.rt.create_stream())

if len(sys.argv) > 1:
    binary = ok(acl.rt.binary_load_from_file(sys.argv[1], []))
else:
    binary = ok(acl.util.load_kernels({"vector_add": vector_add}))
function = ok(acl.rt.binary_get_function(binary, "vector_add"))

x, y, z = (ok(acl.rt.malloc(SIZE, ACL_MEM_MALLOC_HUGE_FIRST)) for _ in range(3))
up, twice, down = (ok(acl.rt.malloc_host(SIZE)) for _ in range(3))  # pinned: the copies are asynchronous
numbers = acl.util.ptr_to_numpy(up, (N,), FLOAT32)
numbers[:] = np.arange(N)
acl.util.ptr_to_numpy(twice, (N,), FLOAT32)[:] = 2 * numbers

# Each argument has 8 bytes. They are copied by the call; until then args has to live.
args = struct.pack("4Q", x, y, z, N)
ok(acl.rt.memcpy_async(x, SIZE, up, SIZE, ACL_MEMCPY_HOST_TO_DEVICE, stream))
ok(acl.rt.memcpy_async(y, SIZE, twice, SIZE, ACL_MEMCPY_HOST_TO_DEVICE, stream))
ok(acl.rt.launch_kernel_with_host_args(function, BLOCKS, stream, [], acl.util.bytes_to_ptr(args), len(args), [], 0))
ok(acl.rt.memcpy_async(down, SIZE, z, SIZE, ACL_MEMCPY_DEVICE_TO_HOST, stream))
print(f"Two copies, a kernel of {BLOCKS} blocks and a copy back are queued.")

# A kernel that failed says so here.
ok(acl.rt.synchronize_stream(stream))
sums = acl.util.ptr_to_numpy(down, (N,), FLOAT32)
expect((sums == 3 * np.arange(N)).all(), "a sum is not what it should be")
print(f"All {N} sums are right.")

del numbers, sums  # they lie in memory that goes now
for ptr in (down, twice, up):
    ok(acl.rt.free_host(ptr))
for ptr in (z, y, x):
    ok(acl.rt.free(ptr))
ok(acl.rt.binary_unload(binary))
ok(acl.rt.destroy_stream(stream))
ok(acl.rt.reset_device(0))
ok(acl.finalize())
