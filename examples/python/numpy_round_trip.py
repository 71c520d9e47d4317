"""NumPy arrays: a picture goes up to the device, is copied there, and comes down as an array that lies in pinned memory.

This is a program for pyACL, and runs on hardware as it is. It needs NumPy (Debian: apt-get install python3-numpy).
"""

import acl
import numpy as np

from check import expect, ok

ACL_MEM_MALLOC_HUGE_FIRST = 0
ACL_MEMCPY_HOST_TO_DEVICE = 1
ACL_MEMCPY_DEVICE_TO_HOST = 2
ACL_MEMCPY_DEVICE_TO_DEVICE = 3
NPY_FLOAT = 11  # NumPy's number of float32: np.dtype(np.float32).num

ok(acl.init())
ok(acl.rt.set_device(0))
stream = ok(acl.rt.create_stream())

picture = np.arange(640 * 480, dtype=np.float32).reshape(480, 640) / 7
turned = picture.T  # the same memory, read in another order

# An address says where memory begins, not in which order an array reads it. So an array that is not contiguous is copied to one
# that is, and its address goes with it. Keep that array, not only the address.
ptr, straight = acl.util.numpy_contiguous_to_ptr(turned)
expect(straight is not turned and np.array_equal(straight, turned), "a copy in straight order was due")
same_ptr, same = acl.util.numpy_contiguous_to_ptr(picture)
expect(same is picture and same_ptr == picture.ctypes.data, "a contiguous array needs no copy")

size = straight.nbytes
first, second = (ok(acl.rt.malloc(size, ACL_MEM_MALLOC_HUGE_FIRST)) for _ in range(2))
down = ok(acl.rt.malloc_host(size))

# Memory of an array is pageable: this copy is done when the call returns. The other two are asynchronous.
ok(acl.rt.memcpy(first, size, ptr, size, ACL_MEMCPY_HOST_TO_DEVICE))
ok(acl.rt.memcpy_async(second, size, first, size, ACL_MEMCPY_DEVICE_TO_DEVICE, stream))
ok(acl.rt.memcpy_async(down, size, second, size, ACL_MEMCPY_DEVICE_TO_HOST, stream))
ok(acl.rt.synchronize_stream(stream))

# Pinned memory as an array: nothing is copied, and what is written to the array is written there. It does not own the memory,
# so it must not be used after free_host; result.copy() may.
result = acl.util.ptr_to_numpy(down, straight.shape, NPY_FLOAT)
expect(result.tobytes() == turned.tobytes(), "the numbers that came down are not those that went up")
print(f"{result.shape[0]} x {result.shape[1]} numbers were copied to the device, within it, and back: all are equal.")

result[:] = -result
ok(acl.rt.memcpy_async(first, size, down, size, ACL_MEMCPY_HOST_TO_DEVICE, stream))  # asynchronous: down is pinned
ok(acl.rt.synchronize_stream(stream))
answer = np.empty_like(straight)
answer_ptr, answer = acl.util.numpy_contiguous_to_ptr(answer)
ok(acl.rt.memcpy(answer_ptr, size, first, size, ACL_MEMCPY_DEVICE_TO_HOST))
expect(answer.tobytes() == (-straight).tobytes(), "the array was not written where its memory is")
print("Copied again from pinned memory, asynchronously, they came back negative.")

del result  # before its memory goes
ok(acl.rt.free_host(down))
ok(acl.rt.free(second))
ok(acl.rt.free(first))
ok(acl.rt.destroy_stream(stream))
ok(acl.rt.reset_device(0))
ok(acl.finalize())
