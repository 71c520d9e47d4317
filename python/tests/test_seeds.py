"""Programs that follow the documents of the API word by word, on the default product and on the oldest one.

The documents are those of memcpy_async (of the oldest product, and of the newer ones), of copies by descriptor, and of
batches. What they promise of C alone is proven in the other tests of the project.
"""

import json
import unittest

import acl
from support import run_program

FEATURE_NOT_SUPPORT, PARAM_INVALID = acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, acl.ACL_ERROR_RT_PARAM_INVALID
SYS_DMA = acl.ACL_ERROR_RT_SYS_DMA

# Prints what the calls return, and whether the bytes are there. As pyACL programs do, it defines the constants itself.
MEMCPY_ASYNC = """
import json, threading
import acl

ACL_MEM_MALLOC_HUGE_FIRST = 0
ACL_MEMCPY_HOST_TO_HOST = 0
ACL_MEMCPY_HOST_TO_DEVICE = 1
ACL_MEMCPY_DEVICE_TO_HOST = 2
ACL_MEMCPY_DEVICE_TO_DEVICE = 3
SIZE = 4096
DATA = bytes(i % 251 for i in range(SIZE))

def good(result):
    *values, ret = result if isinstance(result, tuple) else (result,)
    assert ret == 0, acl.get_recent_err_msg()
    return values[0] if values else None

def holds(ptr):  # wherever it lies
    got = bytes(bytearray(SIZE))
    good(acl.rt.memcpy(acl.util.bytes_to_ptr(got), SIZE, ptr, SIZE, ACL_MEMCPY_DEVICE_TO_HOST))
    return got == DATA

def copy(dst, src, kind):  # the codes of the call and of the synchronisation, and whether the bytes were there then and before
    clear(dst)
    ret = acl.rt.memcpy_async(dst, SIZE, src, SIZE, kind, stream)
    assert type(ret) is int
    before = holds(dst)
    return ret, acl.rt.synchronize_stream(stream), holds(dst), before

def clear(ptr):
    good(acl.rt.memset(ptr, SIZE, 0, SIZE))

good(acl.init())
good(acl.rt.set_device(0))
stream = good(acl.rt.create_stream())
host, back, other = (good(acl.rt.malloc_host(SIZE)) for _ in range(3))
first, second = (good(acl.rt.malloc(SIZE, ACL_MEM_MALLOC_HUGE_FIRST)) for _ in range(2))
good(acl.rt.memcpy(host, SIZE, acl.util.bytes_to_ptr(DATA), SIZE, ACL_MEMCPY_HOST_TO_DEVICE))
told = {"aligned": not any(ptr % 64 for ptr in (host, back, other, first, second))}
told["run mode"] = good(acl.rt.get_run_mode())
told["host memory is"] = good(acl.rt.pointer_get_attributes(host))["location"]["type"]

# Host to device, within the device, device to host, then wait for the tasks.
told["calls"] = [
    acl.rt.memcpy_async(first, SIZE, host, SIZE, ACL_MEMCPY_HOST_TO_DEVICE, stream),
    acl.rt.memcpy_async(second, SIZE, first, SIZE, ACL_MEMCPY_DEVICE_TO_DEVICE, stream),
    acl.rt.memcpy_async(back, SIZE, second, SIZE, ACL_MEMCPY_DEVICE_TO_HOST, stream),
    acl.rt.synchronize_stream(stream),
]
told["round trip"] = holds(first) and holds(second) and holds(back)

# The call delivers a task: nothing is copied while the stream waits for something else.
clear(first)
gate = threading.Event()
good(acl.rt.launch_host_func(stream, lambda _: gate.wait(100), None))
ret = acl.rt.memcpy_async(first, SIZE, host, SIZE, ACL_MEMCPY_HOST_TO_DEVICE, stream)
before = holds(first)
gate.set()
told["delivered"] = [ret, before, acl.rt.synchronize_stream(stream), holds(first)]

# Host memory that malloc_host did not allocate; at a multiple of 64 all the same.
pageable = bytes(bytearray(SIZE + 64))
at = acl.util.bytes_to_ptr(pageable)
at += -at % 64
good(acl.rt.memcpy(at, SIZE, acl.util.bytes_to_ptr(DATA), SIZE, ACL_MEMCPY_HOST_TO_DEVICE))
told["pageable"] = copy(first, at, ACL_MEMCPY_HOST_TO_DEVICE)

# Within the host.
told["host to host"] = copy(other, host, ACL_MEMCPY_HOST_TO_HOST)
told["stream still works"] = copy(first, host, ACL_MEMCPY_HOST_TO_DEVICE)[1:3]

for ptr in (first, second):
    good(acl.rt.free(ptr))
for ptr in (host, back, other):
    good(acl.rt.free_host(ptr))
good(acl.rt.destroy_stream(stream))
good(acl.rt.reset_device(0))
good(acl.finalize())
print(json.dumps(told))
"""

# The five steps of the document.
DESCRIPTOR = """
import json
import acl

ACL_MEMCPY_HOST_TO_DEVICE, ACL_MEMCPY_DEVICE_TO_HOST, ACL_MEMCPY_INNER_DEVICE_TO_DEVICE = 1, 2, 6
SIZE = 256
DATA = bytes(i % 251 for i in range(SIZE))
got = bytes(bytearray(SIZE))

acl.init()
acl.rt.set_device(0)
stream, ret = acl.rt.create_stream()
codes = [ret]
size, ret = acl.rt.get_memcpy_desc_size(ACL_MEMCPY_INNER_DEVICE_TO_DEVICE)
codes.append(ret)
desc, ret = acl.rt.malloc(size, 0)
codes.append(ret)
src, ret = acl.rt.malloc(SIZE, 0)
codes.append(ret)
dst, ret = acl.rt.malloc(SIZE, 0)
codes.append(ret)
codes.append(acl.rt.memcpy(src, SIZE, acl.util.bytes_to_ptr(DATA), SIZE, ACL_MEMCPY_HOST_TO_DEVICE))
same, ret = acl.rt.set_memcpy_desc(desc, ACL_MEMCPY_INNER_DEVICE_TO_DEVICE, src, dst, SIZE, 0)
codes.append(ret)
codes.append(acl.rt.memcpy_async_with_desc(desc, ACL_MEMCPY_INNER_DEVICE_TO_DEVICE, stream))
codes.append(acl.rt.synchronize_stream(stream))
codes.append(acl.rt.memcpy(acl.util.bytes_to_ptr(got), SIZE, dst, SIZE, ACL_MEMCPY_DEVICE_TO_HOST))
print(json.dumps({"codes": sorted(set(codes)), "same": same == desc, "arrived": got == DATA}))
"""

# Ten copies, six with one group of attributes and four with another, as in the example of the document.
BATCH = """
import json, threading
import acl

SIZE, COPIES = 64, 10
HOST, DEVICE = {"id": 0, "type": 0}, {"id": 0, "type": 1}
SIZE_MAX = 2**64 - 1

acl.init()
acl.rt.set_device(0)
stream, _ = acl.rt.create_stream()
pinned = [acl.rt.malloc_host(SIZE)[0] for _ in range(COPIES)]
pageable = [bytes([i + 1]) * SIZE for i in range(COPIES)]
devices = [acl.rt.malloc(SIZE, 0)[0] for _ in range(COPIES)]
for i, ptr in enumerate(pinned):
    acl.rt.memset(ptr, SIZE, i + 1, SIZE)
up = [{"dstLoc": DEVICE, "srcLoc": HOST}] * 2
sizes, told = [SIZE] * COPIES, {}

def arrived():
    there = []
    for ptr in devices:
        got = bytes(bytearray(SIZE))
        acl.rt.memcpy(acl.util.bytes_to_ptr(got), SIZE, ptr, SIZE, 2)
        acl.rt.memset(ptr, SIZE, 0, SIZE)
        there.append(got)
    return there == pageable

def batch(srcs, attrs=up, indexes=(0, 6), dsts=devices):
    return acl.rt.memcpy_batch_async(dsts, sizes, srcs, sizes, attrs, list(indexes), stream)

gate = threading.Event()
acl.rt.launch_host_func(stream, lambda _: gate.wait(100), None)
told["pinned"] = [batch(pinned), arrived()]
gate.set()
told["processed"] = [acl.rt.synchronize_stream(stream), arrived()]
told["pageable"] = [batch([acl.util.bytes_to_ptr(data) for data in pageable]), arrived()]
told["back"] = acl.rt.memcpy_batch_async(pinned, sizes, devices, sizes, [{"dstLoc": HOST, "srcLoc": DEVICE}], [0], stream)
told["within the device"] = batch(devices[1:] + devices[:1], [{"dstLoc": DEVICE, "srcLoc": DEVICE}], [0])
told["not from 0"] = batch(pinned, indexes=(1, 6))
told["not rising"] = batch(pinned, indexes=(0, 0))
told["past the end"] = batch(pinned, indexes=(0, COPIES))
told["more attributes than copies"] = batch(pinned, attrs=[up[0]] * 11, indexes=range(11))
told["wrong memory"] = batch(pinned, dsts=devices[:7] + pinned[7:])
print(json.dumps(told))
"""


class TestDocuments(unittest.TestCase):
    def told(self, program, **environment):
        done = run_program(program, **{"ROPEWAY_PRODUCT": "", "ROPEWAY_FORM": "", **environment})
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        return json.loads(done.stdout)

    def common(self, told):
        """What the document of memcpy_async promises on every product."""
        self.assertTrue(told["aligned"])
        self.assertEqual([0, 0, 0, 0], told["calls"])
        self.assertTrue(told["round trip"])
        self.assertEqual([0, False, 0, True], told["delivered"])
        self.assertEqual([0, True], told["stream still works"])

    def test_memcpy_async(self):
        told = self.told(MEMCPY_ASYNC)
        self.common(told)
        self.assertEqual([0, 0, True, True], told["pageable"], "the call returns after the copy")
        self.assertEqual([FEATURE_NOT_SUPPORT, 0, False, False], told["host to host"])

    def test_memcpy_async_on_the_oldest_product(self):
        told = self.told(MEMCPY_ASYNC, ROPEWAY_PRODUCT="310")
        self.common(told)
        self.assertEqual([0, SYS_DMA, False, False], told["pageable"], "no error at the call, then when the task is executed")
        self.assertEqual([0, SYS_DMA, False, False], told["host to host"], "a success response, then a failure")

    def test_memcpy_async_on_the_board(self):
        told = self.told(MEMCPY_ASYNC, ROPEWAY_PRODUCT="310", ROPEWAY_FORM="RC", ROPEWAY_DRIVER="soft")  # no other has it
        self.common(told)
        self.assertEqual((0, 1), (told["run mode"], told["host memory is"]), "all memory is the device's")
        self.assertEqual([0, 0, True], told["host to host"][:3], "a copy within the device")

    def test_descriptor(self):
        self.assertEqual({"codes": [0], "same": True, "arrived": True}, self.told(DESCRIPTOR))

    def test_batch(self):
        told, nobody, refused = self.told(BATCH), 2**64 - 1, PARAM_INVALID
        self.assertEqual([[nobody, 0], False], told["pinned"], "only delivered")
        self.assertEqual([0, True], told["processed"])
        self.assertEqual([[nobody, 0], True], told["pageable"], "returns after the copies")
        self.assertEqual([nobody, 0], told["back"])
        self.assertEqual([0, refused], told["within the device"])
        for what in ("not from 0", "not rising", "past the end", "more attributes than copies"):
            self.assertEqual([nobody, refused], told[what], what)
        self.assertEqual([7, refused], told["wrong memory"])


if __name__ == "__main__":
    unittest.main()
