"""The checker on Python programs: what touches memory in flight is found, with the Python lines of both sides."""

import unittest

from checked import CheckedCase, Program
from support import need_numpy

READ, WRITE = "host-read-in-flight", "host-write-in-flight"


class TestAccess(CheckedCase):
    def program(self, body):
        return Program(self.directory, body)

    def test_numpy_read_of_a_pending_destination(self):
        need_numpy()
        program = self.program("""
import numpy as np
def load(into):
    ok(rt.memcpy_async(into, SIZE, device, SIZE, D2H, stream))  # submit
def use():
    numbers = acl.util.ptr_to_numpy(host, (SIZE,), np.dtype(np.uint8).num)
    load(host)
    return int(numbers.sum())  # access
use()
""")
        self.assert_found(program, READ)

    def test_ctypes_write_of_a_pending_source(self):
        program = self.program("""
def store():
    ok(rt.memcpy_async(device, SIZE, host, SIZE, H2D, stream))  # submit
def reuse():
    store()
    ctypes.memset(host, 0, SIZE)  # access
reuse()
""")
        self.assert_found(program, WRITE)

    def test_memoryview(self):
        program = self.program("""
view = memoryview((ctypes.c_char * SIZE).from_address(host)).cast("B")
def load():
    ok(rt.memcpy_async(host, SIZE, device, SIZE, D2H, stream))  # submit
load()
first = view[17]  # access
""")
        finding = self.assert_found(program, READ)
        self.assertEqual(17, finding["bytes"]["offset"])

    def test_bytes_of_the_package(self):
        """acl.util asks the system for memory. That it could not be read would be wrong, and so would silence."""
        program = self.program("""
def load():
    ok(rt.memcpy_async(host, SIZE, device, SIZE, D2H, stream))  # submit
load()
data = acl.util.ptr_to_bytes(host, SIZE)  # access
assert len(data) == SIZE
""")
        self.assert_found(program, READ)

    def test_a_thread(self):
        program = self.program("""
def load():
    ok(rt.memcpy_async(host, SIZE, device, SIZE, D2H, stream))  # submit
def look():
    ctypes.c_char.from_address(host).value  # access
load()
thread = threading.Thread(target=look)
thread.start()
thread.join()
""")
        self.assert_found(program, READ)

    def test_a_batch(self):
        """A form that is written by hand, over ctypes, reports where it is called, too."""
        program = self.program("""
attributes = [{"dstLoc": {"id": 0, "type": 0}, "srcLoc": {"id": 0, "type": 1}}]
def load():
    ok(rt.memcpy_batch_async([host], [SIZE], [device], [SIZE], attributes, [0], stream))  # submit
load()
ctypes.c_char.from_address(host).value  # access
""")
        self.assert_found(program, READ)

    def test_without_preloading(self):
        """ROPEWAY_CHECK alone is enough."""
        program = self.program("""
def load():
    ok(rt.memcpy_async(host, SIZE, device, SIZE, D2H, stream))  # submit
load()
ctypes.c_char.from_address(host).value  # access
""")
        self.assert_found(program, READ, preload=False)


# Registers the first whole page of an object with a buffer, and queues a copy from there.
UPLOAD = """
import gc, mmap
def first_page(buffer):
    view = (ctypes.c_char * 1).from_buffer(buffer)
    return -(-ctypes.addressof(view) // SIZE) * SIZE
def upload(page):
    ok(rt.host_register_v2(page, SIZE, acl.ACL_HOST_REG_PINNED))
    ok(rt.memcpy_async(device, SIZE, page, SIZE, H2D, stream))  # submit
"""


class TestMemoryGoes(CheckedCase):
    """Registered memory that Python frees by itself."""

    def assert_goes(self, body, word, call):
        end = "ok(rt.synchronize_stream(stream))\nok(rt.host_unregister(page))\n"
        finding = self.assert_found(Program(self.directory, UPLOAD + body + end), "free-in-flight")
        self.assertTrue(finding["summary"].startswith(f"registered memory is {word} that a pending acl.rt.memcpy_async"), finding)
        self.assertTrue(finding["offence"]["call"].startswith(call + "("), finding)
        self.assertEqual((0, 4096), (finding["bytes"].get("offset", 0), finding["bytes"]["length"]))

    def test_the_last_reference(self):
        self.assert_goes(
            """
buffer = bytearray(64 * SIZE)
page = first_page(buffer)
upload(page)
del buffer  # access
""",
            "freed",
            "free",
        )

    def test_a_collected_cycle(self):
        self.assert_goes(
            """
class Request: pass
def send():
    request = Request()
    request.data, request.itself = bytearray(64 * SIZE), request
    page = first_page(request.data)
    upload(page)
    return page
gc.disable()
page = send()
gc.collect()  # access
""",
            "freed",
            "free",
        )

    def test_a_bytearray_that_grows(self):
        self.assert_goes(
            """
buffer = bytearray(64 * SIZE)
page = first_page(buffer)
upload(page)
buffer.extend(bytes(1024 * SIZE))  # access
""",
            "reallocated",
            "realloc",
        )

    def test_a_closed_mapping(self):
        self.assert_goes(
            """
shared = mmap.mmap(-1, SIZE)
page = first_page(shared)
upload(page)
shared.close()  # access
""",
            "unmapped",
            "munmap",
        )

    def test_in_the_right_order(self):
        body = """
for make in (lambda: bytearray(64 * SIZE), lambda: mmap.mmap(-1, SIZE)):
    buffer = make()
    page = first_page(buffer)
    upload(page)
    ok(rt.synchronize_stream(stream))
    ok(rt.host_unregister(page))
    del buffer
    gc.collect()
"""
        self.assertEqual([], self.findings(Program(self.directory, UPLOAD + body)))


class TestSilence(CheckedCase):
    """Programs that are right."""

    def assert_silent(self, body):
        self.assertEqual([], self.findings(Program(self.directory, body)))

    def test_after_the_copy(self):
        self.assert_silent("""
for _ in range(3):
    ok(rt.memcpy_async(host, SIZE, device, SIZE, D2H, stream))
    ok(rt.synchronize_stream(stream))
    assert acl.util.ptr_to_bytes(host, SIZE) == bytes([7]) * SIZE
    ok(rt.memcpy_async(device, SIZE, host, SIZE, H2D, stream))
    ctypes.string_at(host, SIZE)  # a pending source may be read
    ok(rt.synchronize_stream(stream))
    ctypes.memset(host, 7, SIZE)
""")

    def test_an_array_of_a_pending_destination(self):
        """It is made, not looked at."""
        need_numpy()
        self.assert_silent("""
import numpy as np
ok(rt.memcpy_async(host, SIZE, device, SIZE, D2H, stream))
numbers = acl.util.ptr_to_numpy(host, (SIZE,), np.dtype(np.uint8).num)
ok(rt.synchronize_stream(stream))
assert numbers.sum() == 7 * SIZE
""")

    def test_what_the_package_does_itself(self):
        self.assert_silent("""
ok(rt.memcpy_async(host, SIZE, device, SIZE, D2H, stream))
with acl._checking.unjudged():
    ctypes.string_at(host, 1)
""")

    def test_a_callback_reads(self):
        self.assert_silent("""
heard = []
ok(rt.memcpy_async(host, SIZE, device, SIZE, D2H, stream))
ok(rt.launch_host_func(stream, lambda _: heard.append(ctypes.string_at(host, SIZE)), None))
ok(rt.synchronize_stream(stream))
assert heard == [bytes([7]) * SIZE]
""")


if __name__ == "__main__":
    unittest.main()
