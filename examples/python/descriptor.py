"""Descriptor copy: what to copy is written in device memory and read there when the copy runs, not when it is queued. So
earlier work on the stream can still decide it.

This is a program for pyACL, and runs on hardware as it is. Products A2, A3, 950 and 310B have descriptors.
"""

import acl

from check import expect, ok

ACL_MEM_MALLOC_HUGE_FIRST = 0
ACL_MEMCPY_DEVICE_TO_HOST = 2
ACL_MEMCPY_DEVICE_TO_DEVICE = 3
ACL_MEMCPY_INNER_DEVICE_TO_DEVICE = 6  # the only kind there is for descriptors

SIZE = 4096

ok(acl.init())
ok(acl.rt.set_device(0))
stream = ok(acl.rt.create_stream())

# Two sources and one target on the device, because a descriptor copies within a device.
host = ok(acl.rt.malloc_host(SIZE))
red, blue, target = (ok(acl.rt.malloc(SIZE, ACL_MEM_MALLOC_HUGE_FIRST)) for _ in range(3))
ok(acl.rt.memset(red, SIZE, ord("r"), SIZE))
ok(acl.rt.memset(blue, SIZE, ord("b"), SIZE))

# The size of a descriptor depends on the product, so ask. It has to lie in device memory at a multiple of 64; malloc sees to
# that. (Several in one allocation: round the size up to 64.)
size = ok(acl.rt.get_memcpy_desc_size(ACL_MEMCPY_INNER_DEVICE_TO_DEVICE))
desc, other = (ok(acl.rt.malloc(size, ACL_MEM_MALLOC_HUGE_FIRST)) for _ in range(2))

# Written at once, so no queued copy may need the old contents. Mind the order: source, then target. The last argument is
# always 0. pyACL hands the address of the descriptor back.
same = ok(acl.rt.set_memcpy_desc(desc, ACL_MEMCPY_INNER_DEVICE_TO_DEVICE, red, target, SIZE, 0))
expect(same == desc, "a descriptor should stay where it is")
ok(acl.rt.set_memcpy_desc(other, ACL_MEMCPY_INNER_DEVICE_TO_DEVICE, blue, target, SIZE, 0))


def run():
    """Queues the copy that the descriptor names, and returns the bytes of the target."""
    # As often as wanted. The descriptor has to live until the copy is done; the default stream is not taken here.
    ok(acl.rt.memcpy_async_with_desc(desc, ACL_MEMCPY_INNER_DEVICE_TO_DEVICE, stream))
    ok(acl.rt.memcpy_async(host, SIZE, target, SIZE, ACL_MEMCPY_DEVICE_TO_HOST, stream))
    ok(acl.rt.synchronize_stream(stream))
    return acl.util.ptr_to_bytes(host, SIZE)


expect(run() == b"r" * SIZE, "the target should be red")
print(f"The descriptor names red: {SIZE} bytes of the target are red.")

# Now the stream itself rewrites the descriptor before the device reads it. The call is the same as before.
ok(acl.rt.memcpy_async(desc, size, other, size, ACL_MEMCPY_DEVICE_TO_DEVICE, stream))
expect(run() == b"b" * SIZE, "the target should be blue")
print("The stream rewrote the descriptor: the same call copied blue.")

for ptr in (other, desc, target, blue, red):
    ok(acl.rt.free(ptr))
ok(acl.rt.free_host(host))
ok(acl.rt.destroy_stream(stream))
ok(acl.rt.reset_device(0))
ok(acl.finalize())
