"""acl.util: bytes and arrays as addresses, and back."""

import ctypes
import errno
import mmap
import unittest
import warnings

import acl
from acl import rt, util
from support import D2H, H2D, DeviceCase, need_numpy, run_program

# A program begins with this to have no NumPy, whether it is installed or not.
NO_NUMPY = "import sys; sys.modules['numpy'] = None\n"


def no_access(size):
    """Pages that nobody may read, and what keeps them."""
    libc = ctypes.CDLL(None)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
    return libc.mmap(None, size, 0, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)


class TestBytes(DeviceCase):
    def test_the_address_is_that_of_the_data(self):
        data = b"scattered"
        self.assertEqual(data, ctypes.string_at(util.bytes_to_ptr(data), len(data)))

    def test_nothing_is_copied(self):
        """pyACL programs let device-to-host copies write into bytes objects."""
        source, target, device = bytes(range(64)), bytes(64), self.device_memory(64)
        self.ok(rt.memcpy(device, 64, util.bytes_to_ptr(source), 64, H2D))
        self.ok(rt.memcpy(util.bytes_to_ptr(target), 64, device, 64, D2H))
        self.assertEqual(source, target)

    def test_only_bytes_have_an_address(self):
        for wrong in ("text", bytearray(4), memoryview(b"x"), 5, None):
            with self.subTest(wrong), self.assertRaisesRegex(ValueError, r"^acl\.util\.bytes_to_ptr: .* must be bytes, not"):
                util.bytes_to_ptr(wrong)

    def test_a_copy_of_host_memory(self):
        pinned = self.host_memory(4096)
        ctypes.memset(pinned, 0x5A, 4096)
        copied = util.ptr_to_bytes(pinned, 4096)
        ctypes.memset(pinned, 0, 4096)
        self.assertEqual(b"\x5a" * 4096, copied)
        self.assertEqual(b"", util.ptr_to_bytes(pinned, 0))
        self.assertEqual(b"", util.ptr_to_bytes(0, 0))

    def test_large_copies(self):
        size = (5 << 20) + 3
        source = bytes(i & 0xFF for i in range(251)) * (size // 251 + 1)
        self.assertEqual(source[:size], util.ptr_to_bytes(util.bytes_to_ptr(source), size))

    def test_device_memory_of_the_form_rc(self):
        """There the host and the device share their memory."""
        done = run_program(
            "import acl\n"
            "acl.rt.set_device(0)\n"
            "ptr, ret = acl.rt.malloc(64, 0)\n"
            "assert acl.rt.memset(ptr, 64, 7, 64) == 0\n"
            "print(acl.util.ptr_to_bytes(ptr, 3))\n",
            ROPEWAY_PRODUCT="310P",
            ROPEWAY_FORM="RC",
            ROPEWAY_DRIVER="soft",  # no other driver has this form
        )
        self.assertEqual((0, "b'\\x07\\x07\\x07'\n"), (done.returncode, done.stdout), done.stderr)

    def test_device_memory_is_refused(self):
        device = self.device_memory(1 << 22)
        for ptr, size in ((device, 64), (device + 100, 4), (device, 1 << 22)):
            with self.assertRaisesRegex(ValueError, "device memory.*copy it to the host first"):
                util.ptr_to_bytes(ptr, size)

    def test_no_address_at_all(self):
        """The interpreter does not crash."""
        closed = no_access(1 << 16)
        for ptr, size in ((0, 1), (1, 8), (closed, 8), (-1, 8), (2**64 - 4096, 4096), (2**63, 1), (closed, 1 << 40)):
            with self.subTest(hex(ptr)), self.assertRaisesRegex(ValueError, "cannot read"):
                util.ptr_to_bytes(ptr, size)

    def test_memory_that_ends_too_early(self):
        page = mmap.PAGESIZE
        pages = mmap.mmap(-1, 2 * page)
        start = ctypes.addressof(ctypes.c_char.from_buffer(pages))
        libc = ctypes.CDLL(None)
        libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        self.assertEqual(0, libc.mprotect(start + page, page, 0))
        with self.assertRaisesRegex(ValueError, f"only the first {page} are there"):
            util.ptr_to_bytes(start, 2 * page)
        self.assertEqual(bytes(page), util.ptr_to_bytes(start, page))
        self.assertEqual(0, libc.mprotect(start + page, page, mmap.PROT_READ))

    def test_wrong_arguments(self):
        data = b"x"
        for arguments, error, text in (
            ((data, 1), TypeError, r"argument 1 \(ptr\) must be int, not bytes; use acl.util.bytes_to_ptr"),
            ((1, "1"), TypeError, r"argument 2 \(size\) must be int, not str"),
            ((1 << 64, 1), OverflowError, r"argument 1 \(ptr\) does not fit 64 bits"),
            ((util.bytes_to_ptr(data), -1), ValueError, r"argument 2 \(size\) is no size: -1"),
        ):
            with self.subTest(text), self.assertRaisesRegex(error, text):
                util.ptr_to_bytes(*arguments)

    def test_reading_where_the_system_does_not_help(self):
        """Some containers forbid process_vm_readv: device memory is still refused, host memory still copied."""

        def forbidden(*_):
            ctypes.set_errno(errno.EPERM)
            return -1

        self.addCleanup(setattr, util, "_process_vm_readv", util._process_vm_readv)
        util._process_vm_readv = forbidden
        data = b"plain"
        self.assertEqual(data, util.ptr_to_bytes(util.bytes_to_ptr(data), len(data)))
        with self.assertRaisesRegex(ValueError, "device memory"):
            util.ptr_to_bytes(self.device_memory(64), 64)


class TestNumpy(DeviceCase):
    def setUp(self):
        self.numpy = need_numpy()
        super().setUp()

    def test_a_contiguous_array_is_not_copied(self):
        array = self.numpy.arange(12, dtype="int32").reshape(3, 4)
        ptr, same = util.numpy_contiguous_to_ptr(array)
        self.assertIs(array, same)
        self.assertEqual(array.tobytes(), util.ptr_to_bytes(ptr, array.nbytes))

    def test_another_array_is_made_contiguous(self):
        array = self.numpy.arange(12, dtype="int32").reshape(3, 4).T
        ptr, made = util.numpy_contiguous_to_ptr(array)
        self.assertTrue(made.flags.c_contiguous)
        self.assertEqual(array.tolist(), made.tolist())
        self.assertEqual(made.tobytes(), util.ptr_to_bytes(ptr, made.nbytes))

    def test_an_array_without_dimensions_stays_one(self):
        _, same = util.numpy_contiguous_to_ptr(self.numpy.array(5))
        self.assertEqual((), same.shape)

    def test_numpy_to_ptr_warns(self):
        array = self.numpy.zeros((4, 4))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            self.assertEqual(array.ctypes.data, util.numpy_to_ptr(array))
            self.assertEqual([DeprecationWarning], [w.category for w in caught])
            self.assertEqual(__file__, caught[0].filename)
            util.numpy_to_ptr(array.T[:2])
        self.assertEqual([DeprecationWarning, DeprecationWarning, RuntimeWarning], [w.category for w in caught])

    def test_only_arrays_have_an_address(self):
        for function in (util.numpy_contiguous_to_ptr, util.numpy_to_ptr):
            with self.assertRaisesRegex(TypeError, "must be numpy.ndarray, not list"):
                function([1, 2])

    def test_a_view_writes_to_the_memory(self):
        pinned = self.host_memory(4096)
        view = util.ptr_to_numpy(pinned, (2, 3), 11)
        view[:] = [[1, 2, 3], [4, 5, 6]]
        self.assertEqual(view.tobytes(), util.ptr_to_bytes(pinned, view.nbytes))
        self.assertFalse(view.flags.owndata)
        self.assertTrue(view.flags.writeable)
        self.assertEqual(pinned, view.ctypes.data)

    def test_type_numbers_are_numpys(self):
        names = "bool int8 uint8 int16 uint16 int32 uint32 int64 uint64 longlong ulonglong float32 float64".split()
        pinned = self.host_memory(4096)
        for number, name in [*enumerate(names), (23, "float16")]:
            with self.subTest(name):
                view = util.ptr_to_numpy(pinned, (4,), number)
                self.assertEqual((self.numpy.dtype(name).char, number), (view.dtype.char, view.dtype.num))

    def test_round_trip(self):
        source = self.numpy.linspace(0, 1, 1000, dtype="float32")
        ptr, source = util.numpy_contiguous_to_ptr(source)
        device, pinned = self.device_memory(source.nbytes), self.host_memory(source.nbytes)
        self.ok(rt.memcpy(device, source.nbytes, ptr, source.nbytes, H2D))
        self.ok(rt.memcpy(pinned, source.nbytes, device, source.nbytes, D2H))
        self.assertTrue(self.numpy.array_equal(source, util.ptr_to_numpy(pinned, source.shape, 11)))

    def test_views_that_are_refused(self):
        device, pinned = self.device_memory(4096), self.host_memory(4096)
        for arguments, error, text in (
            ((device, (4,), 11), ValueError, "device memory.*copy it to the host first"),
            ((0, (4,), 11), ValueError, "NULL"),
            ((1, (4,), 11), ValueError, "cannot read 16 bytes at 0x1"),
            ((pinned, (1 << 45,), 2), ValueError, "cannot read"),
            ((pinned, (1 << 40, 1 << 40), 2), ValueError, "no room"),
            ((pinned, (4,), 17), ValueError, "npy_type"),
            ((pinned, (4,), 99), ValueError, "npy_type"),
            ((pinned, (-4,), 11), ValueError, r"shape\[0\]"),
            ((pinned, 4, 11), TypeError, r"argument 2 \(shape\) must be tuple, not int"),
            ((pinned, (4.0,), 11), TypeError, r"shape\[0\]\) must be int, not float"),
            ((b"x", (4,), 11), TypeError, "use acl.util.bytes_to_ptr"),
            ((pinned, (4,), "f"), TypeError, "npy_type"),
        ):
            with self.subTest(arguments), self.assertRaisesRegex(error, text):
                util.ptr_to_numpy(*arguments)

    def test_empty_views(self):
        self.assertEqual((0, 3), util.ptr_to_numpy(0, (0, 3), 11).shape)

    def test_numpy_integers_are_integers(self):
        pinned = self.numpy.uint64(self.host_memory(64))
        self.ok(rt.pointer_get_attributes(pinned))
        self.assertEqual(64, len(util.ptr_to_bytes(pinned, self.numpy.int32(64))))


class TestWithoutNumpy(unittest.TestCase):
    def test_what_is_missing_is_said(self):
        for call in ("numpy_to_ptr(1)", "numpy_contiguous_to_ptr(1)", "ptr_to_numpy(1, (1,), 11)"):
            done = run_program(f"{NO_NUMPY}import acl\ntry: acl.util.{call}\nexcept ImportError as e: print(e.name, e)")
            self.assertEqual("", done.stderr)
            self.assertRegex(done.stdout, r"^numpy acl\.util\.\w+ needs NumPy .*python3-numpy.*pip install numpy")

    def test_nothing_else_needs_it(self):
        done = run_program(
            "import acl\nacl.init()\nb = b'abc'\nprint(acl.util.ptr_to_bytes(acl.util.bytes_to_ptr(b), 3))\n"
            "import sys; print('numpy' in sys.modules)"
        )
        self.assertEqual(("b'abc'\nFalse\n", ""), (done.stdout, done.stderr))


class TestSurface(unittest.TestCase):
    def test_documented_names(self):
        own = {name for name, value in vars(util).items() if getattr(value, "__module__", "") == "acl.util"}
        self.assertEqual(set(util.__all__), {name for name in own if not name.startswith("_")})
        for name in util.__all__:
            self.assertTrue(getattr(util, name).__doc__.startswith(f"acl.util.{name}("), name)
        self.assertIs(util, acl.util)


if __name__ == "__main__":
    unittest.main()
