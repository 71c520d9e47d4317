"""Asynchronous copy: a megabyte goes up to the device and down again, while the host is free to do something else.

    ret = acl.rt.memcpy_async(dst, dest_max, src, count, kind, stream)

This is a program for pyACL, and runs on hardware as it is.
"""

import acl

from check import expect, ok

# pyACL has no constants; its programs write them down, with the names of C. (Here acl.ACL_MEMCPY_HOST_TO_DEVICE is there, too.)
ACL_MEM_MALLOC_HUGE_FIRST = 0
ACL_MEMCPY_HOST_TO_HOST = 0
ACL_MEMCPY_HOST_TO_DEVICE = 1
ACL_MEMCPY_DEVICE_TO_HOST = 2

SIZE = 1 << 20

# Once for the process. A path of a configuration file could be given.
ok(acl.init())

# This thread now works on device 0. Another thread would have to say so itself: threads inherit nothing.
ok(acl.rt.set_device(0))
stream = ok(acl.rt.create_stream())

# Host memory for asynchronous copies comes from malloc_host. It is pinned: it cannot be moved or swapped out, so the device
# may read it whenever it gets there. Memory of Python, like that of bytes, is pageable: the call still works, but it waits
# for the whole stream and copies before it returns.
#
# What both calls return is aligned to 64 bytes and more, which some products want of both ends of a copy. If you
# cut buffers into pieces, keep the offsets multiples of 64.
up = ok(acl.rt.malloc_host(SIZE))
down = ok(acl.rt.malloc_host(SIZE))
device = ok(acl.rt.malloc(SIZE, ACL_MEM_MALLOC_HUGE_FIRST))

# Addresses are plain integers. The bytes get into pinned memory by a copy within the host, which is done when it returns.
# data has to stay alive until then: bytes_to_ptr keeps no reference to it.
data = bytes(i * 31 + i // 256 & 255 for i in range(SIZE))
ok(acl.rt.memcpy(up, SIZE, acl.util.bytes_to_ptr(data), SIZE, ACL_MEMCPY_HOST_TO_HOST))
ok(acl.rt.memset(down, SIZE, 0, SIZE))

# Both calls return when the copy is queued. One stream keeps its order, so the second copy starts when the first is done. The
# second argument is the room at the destination: a copy that would not fit is refused.
ok(acl.rt.memcpy_async(device, SIZE, up, SIZE, ACL_MEMCPY_HOST_TO_DEVICE, stream))
ok(acl.rt.memcpy_async(down, SIZE, device, SIZE, ACL_MEMCPY_DEVICE_TO_HOST, stream))
print(f"Two copies are queued: {SIZE} bytes to the device, and back.")

# From here on, up must not be written and down must not be touched. All else is fine.
print(f"Meanwhile the host added up the bytes: {sum(data)}.")

# Waits for both copies, and returns the first error since the last time.
ok(acl.rt.synchronize_stream(stream))
expect(acl.util.ptr_to_bytes(down, SIZE) == data, "the bytes that came down are not those that went up")
print("Every byte came back.")

# In the opposite order; memory only when no copy uses it any more.
ok(acl.rt.free(device))
ok(acl.rt.free_host(down))
ok(acl.rt.free_host(up))
ok(acl.rt.destroy_stream(stream))
ok(acl.rt.reset_device(0))  # once for each set_device
ok(acl.finalize())
