"""A model: a step is captured once and run a hundred times.

The functions of models are ones that pyACL does not have; they are named as those it has.
"""

import acl

from check import expect, ok

SIZE, RUNS = 1 << 16, 100

ok(acl.init())
ok(acl.rt.set_device(0))
stream = ok(acl.rt.create_stream())
up = ok(acl.rt.malloc_host(SIZE))  # pinned: other memory cannot be captured
down = ok(acl.rt.malloc_host(SIZE))
device = ok(acl.rt.malloc(SIZE, acl.ACL_MEM_MALLOC_HUGE_FIRST))

# Nothing between these two calls runs: it becomes a task of the model.
ok(acl.rt.mdl_ri_capture_begin(stream, acl.ACL_MODEL_RI_CAPTURE_MODE_GLOBAL))
ok(acl.rt.memcpy_async(device, SIZE, up, SIZE, acl.ACL_MEMCPY_HOST_TO_DEVICE, stream))
ok(acl.rt.memcpy_async(down, SIZE, device, SIZE, acl.ACL_MEMCPY_DEVICE_TO_HOST, stream))
step = ok(acl.rt.mdl_ri_capture_end(stream))

for run in range(RUNS):
    ok(acl.rt.memset(up, SIZE, run, SIZE))  # the bytes are read when the model runs
    ok(acl.rt.mdl_ri_execute_async(step, stream))
    ok(acl.rt.synchronize_stream(stream))
    expect(acl.util.ptr_to_bytes(down, SIZE) == bytes([run]) * SIZE, "a run left other bytes")
print(f"The step ran {RUNS} times, and every result is right.")

ok(acl.rt.mdl_ri_destroy(step))
ok(acl.rt.free(device))
ok(acl.rt.free_host(down))
ok(acl.rt.free_host(up))
ok(acl.rt.destroy_stream(stream))
ok(acl.rt.reset_device(0))
ok(acl.finalize())
