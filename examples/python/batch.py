"""Batch copy: sixteen pages of a cache, side by side in host memory, go to sixteen places scattered over the device, with one
call instead of sixteen.

pyACL has no batch copies, only C has: on hardware this program stops at memcpy_batch_async, which ropeway adds under pyACL's
conventions. Products A2, A3 and 950 have them; the vendor marks them a trial feature.
"""

import acl

from check import expect, ok

ACL_MEM_MALLOC_HUGE_FIRST = 0
ACL_MEMCPY_HOST_TO_HOST = 0
ACL_MEMCPY_DEVICE_TO_HOST = 2
ACL_MEM_LOCATION_TYPE_HOST = 0
ACL_MEM_LOCATION_TYPE_DEVICE = 1
ACL_ERROR_RT_PARAM_INVALID = 107000

PAGES, PAGE = 16, 4096  # a multiple of 64, so every page is aligned as the buffers are

ok(acl.init())
ok(acl.rt.set_device(0))
stream = ok(acl.rt.create_stream())

# Pinned, so that the batch is asynchronous. A pageable page would make the call wait for the stream.
cache = ok(acl.rt.malloc_host(PAGES * PAGE))
back = ok(acl.rt.malloc_host(PAGES * PAGE))
device = ok(acl.rt.malloc(PAGES * PAGE, ACL_MEM_MALLOC_HUGE_FIRST))
pages = [bytes([ord("a") + i]) * PAGE for i in range(PAGES)]
joined = b"".join(pages)
ok(acl.rt.memcpy(cache, PAGES * PAGE, acl.util.bytes_to_ptr(joined), PAGES * PAGE, ACL_MEMCPY_HOST_TO_HOST))

# Segment i copies sizes[i] bytes from srcs[i] to dsts[i], where there is room for dest_maxs[i]. Segments are independent and run
# in any order, so none may touch what another one writes. The stream keeps its order around the batch as a whole. The
# lists may be changed as soon as the call returns; the memory may not.
place = [i * 7 % PAGES for i in range(PAGES)]  # 7 and 16 have no common divisor: each place is taken once
srcs = [cache + i * PAGE for i in range(PAGES)]
dsts = [device + p * PAGE for p in place]
sizes = [PAGE] * PAGES  # array.array("Q", …) or a NumPy array of uint64 would do as well, and is faster for thousands

# Attributes say where memory is: attribute k holds for the segments from attrs_indexes[k] up to the next one's. Here one is
# enough. Host memory has id 0, device memory the number of its device. All segments of a batch go the same way.
up = {"dstLoc": {"id": 0, "type": ACL_MEM_LOCATION_TYPE_DEVICE}, "srcLoc": {"id": 0, "type": ACL_MEM_LOCATION_TYPE_HOST}}
ok(acl.rt.memcpy_batch_async(dsts, sizes, srcs, sizes, [up], [0], stream))
print(f"{PAGES} pages of {PAGE} bytes were copied with one call, each to its own place.")

# Down again in one piece, on the same stream and so after the batch: page i must be where it was sent.
ok(acl.rt.memcpy_async(back, PAGES * PAGE, device, PAGES * PAGE, ACL_MEMCPY_DEVICE_TO_HOST, stream))
ok(acl.rt.synchronize_stream(stream))
came = acl.util.ptr_to_bytes(back, PAGES * PAGE)
for page, p in zip(pages, place):
    expect(came[p * PAGE : (p + 1) * PAGE] == page, "a page is not where it was sent")
print("Their order on the device:", came[::PAGE].decode())

# If a segment is refused, fail_index reports which; otherwise it is 2**64 - 1. Here segment 5 starts in device memory, but the
# attribute promises host memory. On A2 and A3 the segments before it are queued by then: synchronise before their memory
# is used again.
srcs[5] = device
fail_index, ret = acl.rt.memcpy_batch_async(dsts, sizes, srcs, sizes, [up], [0], stream)
expect((fail_index, ret) == (5, ACL_ERROR_RT_PARAM_INVALID), "segment 5 should have been refused")
print(f"A page in the wrong kind of memory is refused, with its number: {fail_index}.")
ok(acl.rt.synchronize_stream(stream))

ok(acl.rt.free(device))
ok(acl.rt.free_host(back))
ok(acl.rt.free_host(cache))
ok(acl.rt.destroy_stream(stream))
ok(acl.rt.reset_device(0))
ok(acl.finalize())
