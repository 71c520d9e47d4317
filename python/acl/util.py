"""Bytes and NumPy arrays as addresses and back, and threads for callbacks.

NumPy is imported when it is first needed; without it the functions that need it raise ImportError.
"""

import ctypes
import functools
import os
import threading
import warnings
from ctypes import POINTER, byref, c_ssize_t, c_ulong, c_void_p
from typing import Any, Callable, Sequence, SupportsIndex, Tuple
from typing import Mapping as _Mapping

from . import _checking
from ._arguments import Bad, address, callable_, u64
from ._arguments import text as _text

__all__ = [
    "bytes_to_ptr",
    "load_kernels",
    "numpy_contiguous_to_ptr",
    "numpy_to_ptr",
    "ptr_to_bytes",
    "ptr_to_numpy",
    "start_thread",
    "stop_thread",
]

_INVALID_PARAM = 100000  # ACL_ERROR_INVALID_PARAM

_PyBytes_AsString = ctypes.pythonapi.PyBytes_AsString
_PyBytes_AsString.argtypes, _PyBytes_AsString.restype = [ctypes.py_object], c_void_p
_PyBytes_FromStringAndSize = ctypes.pythonapi.PyBytes_FromStringAndSize
_PyBytes_FromStringAndSize.argtypes, _PyBytes_FromStringAndSize.restype = [c_void_p, c_ssize_t], ctypes.py_object


def _checked(function, position, name, kind, value):
    try:
        return kind(value)
    except Bad as bad:
        raise bad.kind(f"acl.util.{function}: argument {position} ({name}) {bad.what}") from None


# Bytes


def bytes_to_ptr(b: bytes, /) -> int:
    """acl.util.bytes_to_ptr(b) -> int

    The address of the data of a bytes object. It is good for as long as the object lives. Nothing is copied: a caller that lets a
    copy write there changes the object.
    """
    if not isinstance(b, bytes):
        raise ValueError(f"acl.util.bytes_to_ptr: argument 1 (b) must be bytes, not {type(b).__name__}")
    return _PyBytes_AsString(b)


def ptr_to_bytes(ptr: SupportsIndex, size: SupportsIndex, /) -> bytes:
    """acl.util.ptr_to_bytes(ptr, size) -> bytes

    A copy of size bytes of host memory. An address that cannot be read raises ValueError.
    """
    ptr = _checked("ptr_to_bytes", 1, "ptr", address, ptr)
    size = _size("ptr_to_bytes", 2, "size", size)
    if size and _closed(ptr):
        raise ValueError(f"acl.util.ptr_to_bytes: {_why_unreadable(ptr, size, 0)}")
    if size > _MOST_UNSEEN and not _readable(ptr + size - 1):
        raise ValueError(f"acl.util.ptr_to_bytes: {_why_unreadable(ptr, size, 0)}")
    made = _PyBytes_FromStringAndSize(None, size)
    read = _read(ptr, size, _PyBytes_AsString(made))
    if read < size and _checking.on() and _pinned(ptr + read) and _pinned(ptr + size - 1):
        # The checker has closed the memory. An ordinary access brings it in, and it judges that access.
        ctypes.memmove(_PyBytes_AsString(made) + read, ptr + read, size - read)
        return made
    if read < size:
        raise ValueError(f"acl.util.ptr_to_bytes: {_why_unreadable(ptr, size, read)}")
    return made


_MOST_UNSEEN = 1 << 20  # above that, the end of the memory is determined before a copy is allocated


def _size(function, position, name, value):
    size = _checked(function, position, name, u64, value)
    if size >> 63:
        raise ValueError(f"acl.util.{function}: argument {position} ({name}) is no size: {value}")
    return size


# Reading memory that may not be mapped: the system call returns an error instead of ending the process.


class _Span(ctypes.Structure):
    _fields_ = [("base", c_void_p), ("length", ctypes.c_size_t)]


_process_vm_readv = ctypes.CDLL(None, use_errno=True).process_vm_readv
_process_vm_readv.argtypes = [ctypes.c_int, POINTER(_Span), c_ulong, POINTER(_Span), c_ulong, c_ulong]
_process_vm_readv.restype = c_ssize_t

_MOST_AT_ONCE = 1 << 30  # the system reads less than 2 GiB in one call
_EFAULT = 14


def _read(source, size, target):
    """Copies as much memory as can be read, and returns the number of bytes."""
    if getattr(_thread, "kernel", False) and _checking.on():
        # The checker opens pages when a kernel accesses them; a system call would find them closed.
        if not _mapped(source, size):
            return 0
        ctypes.memmove(target, source, size)
        return size
    done = 0
    while done < size:
        length = min(size - done, _MOST_AT_ONCE)
        to, from_ = _Span(target + done, length), _Span(source + done, length)
        n = _process_vm_readv(os.getpid(), byref(to), 1, byref(from_), 1, 0)
        if n < 0 and ctypes.get_errno() != _EFAULT:
            return _read_unprotected(source, size, target)
        if n <= 0:
            break
        done += n
    return done


_msync = ctypes.CDLL(None).msync
_msync.argtypes = [c_void_p, ctypes.c_size_t, ctypes.c_int]
_PAGE, _MS_ASYNC = 4096, 1


def _mapped(ptr, size):
    """Whether memory is mapped, closed or not."""
    start = ptr // _PAGE * _PAGE
    return _msync(start, ptr + size - start, _MS_ASYNC) == 0


_thread = threading.local()  # kernel is True while the thread runs a kernel that is a Python function


def _closed(ptr):
    """Whether an address is device memory, for a thread outside of a kernel, which must not access it even if
    it is open."""
    return not getattr(_thread, "kernel", False) and _place(ptr) == _DEVICE and _apart()


@functools.lru_cache(maxsize=None)
def _apart():
    """Whether the host cannot access device memory; in the form RC it can."""
    from .rt import get_run_mode

    return get_run_mode()[0] != _ON_DEVICE


_ON_DEVICE = 0  # ACL_DEVICE: the program runs on the device's own CPU


def _readable(ptr):
    if getattr(_thread, "kernel", False):
        if _checking.on():
            return _mapped(ptr, 1)  # the test itself is not an access of the kernel
    elif _closed(ptr):
        return False
    elif _checking.on() and _pinned(ptr):
        return True  # the test itself is not an access to report to the checker
    byte = ctypes.create_string_buffer(1)
    return _read(ptr, 1, ctypes.addressof(byte)) == 1


def _read_unprotected(source, size, target):
    """Where the system forbids the call (some containers), memory that the runtime reports as device memory
    is refused."""
    if _place(source) == _DEVICE:
        return 0
    ctypes.memmove(target, source, size)
    return size


_PINNED, _DEVICE = 0, 1  # ACL_MEM_LOCATION_TYPE_HOST, also for registered memory, and
                        # ACL_MEM_LOCATION_TYPE_DEVICE


def _place(ptr):
    """The location of an address as the runtime reports it; None if it reports none."""
    from ._special import rt_pointer_get_attributes

    with _checking.unjudged():
        attributes, ret = rt_pointer_get_attributes(ptr)
    return None if ret else attributes["location"]["type"]


def _pinned(ptr):
    return ptr < 1 << 64 and _place(ptr) == _PINNED


def _why_unreadable(ptr, size, read):
    if ptr == 0:
        return f"cannot read {size} bytes at 0: it is NULL"
    if _place(ptr) == _DEVICE:
        return (
            f"{ptr:#x} is device memory, which the host cannot read; copy it to the host first "
            "(acl.rt.memcpy with ACL_MEMCPY_DEVICE_TO_HOST)"
        )
    if read:
        return f"cannot read {size} bytes at {ptr:#x}: only the first {read} are there"
    return f"cannot read {size} bytes at {ptr:#x}: no memory is there, or not so much"


# NumPy


def _numpy(function):
    try:
        import numpy
    except ImportError as error:
        raise ImportError(
            f"acl.util.{function} needs NumPy ({error}). Install it: apt-get install python3-numpy (Debian), or pip "
            "install numpy",
            name="numpy",
        ) from None
    return numpy


def _array(function, numpy, a):
    if not isinstance(a, numpy.ndarray):
        raise TypeError(f"acl.util.{function}: argument 1 (a) must be numpy.ndarray, not {type(a).__name__}")
    return a


def numpy_to_ptr(a: Any, /) -> int:
    """acl.util.numpy_to_ptr(a) -> int

    The address of an array's data. Deprecated: an array that is not contiguous is not what the address suggests; use
    numpy_contiguous_to_ptr.
    """
    _array("numpy_to_ptr", _numpy("numpy_to_ptr"), a)
    text = "acl.util.numpy_to_ptr is deprecated; use acl.util.numpy_contiguous_to_ptr"
    warnings.warn(text, DeprecationWarning, stacklevel=2)
    if not a.flags.c_contiguous:
        warnings.warn("acl.util.numpy_to_ptr: the array is not contiguous in memory", RuntimeWarning, stacklevel=2)
    return a.ctypes.data


def numpy_contiguous_to_ptr(a: Any, /) -> Tuple[int, Any]:
    """acl.util.numpy_contiguous_to_ptr(a) -> (int, array)

    The address of an array's data and the array it belongs to: a itself, or a copy if a is not contiguous. The address is
    good for as long as that array lives.
    """
    numpy = _numpy("numpy_contiguous_to_ptr")
    if not _array("numpy_contiguous_to_ptr", numpy, a).flags.c_contiguous:
        a = numpy.ascontiguousarray(a)
    return a.ctypes.data, a


# NumPy's type codes by its type numbers. Objects and texts are omitted: any bytes must be a valid element.
_CODES = {**dict(enumerate("?bBhHiIlLqQfdgFDG")), 23: "e"}


def ptr_to_numpy(ptr: SupportsIndex, shape: Sequence[SupportsIndex], npy_type: SupportsIndex, /) -> Any:
    """acl.util.ptr_to_numpy(ptr, shape, npy_type) -> array

    Host memory as an array: nothing is copied, writes go to the memory, and the array does not own it. shape is a tuple,
    npy_type NumPy's type number (11 is float32). An address that cannot be read raises ValueError.
    """
    numpy = _numpy("ptr_to_numpy")
    ptr = _checked("ptr_to_numpy", 1, "ptr", address, ptr)
    if not isinstance(shape, (tuple, list)):
        raise TypeError(f"acl.util.ptr_to_numpy: argument 2 (shape) must be tuple, not {type(shape).__name__}")
    shape = tuple(_size("ptr_to_numpy", 2, f"shape[{i}]", length) for i, length in enumerate(shape))
    code = _CODES.get(_checked("ptr_to_numpy", 3, "npy_type", u64, npy_type))
    if code is None:
        raise ValueError(f"acl.util.ptr_to_numpy: argument 3 (npy_type) is no type number of NumPy's numbers: {npy_type}")
    dtype = numpy.dtype(code)
    size = dtype.itemsize
    for length in shape:
        size *= length
    if size == 0:
        return numpy.empty(shape, dtype)
    if ptr + size > 1 << 64:
        raise ValueError(f"acl.util.ptr_to_numpy: there is no room for {size} bytes at {ptr:#x}")
    if not (_readable(ptr) and _readable(ptr + size - 1)):
        raise ValueError(f"acl.util.ptr_to_numpy: {_why_unreadable(ptr, size, 0)}")
    return numpy.ndarray(shape, dtype, buffer=(ctypes.c_char * size).from_address(ptr))


# Kernels


def load_kernels(functions: _Mapping[str, Callable[..., Any]], /) -> Tuple[int, int]:
    """acl.util.load_kernels(functions) -> (bin_handle, ret)

    Loads Python functions as a binary, in which they are kernels by their names, for tests of programs that launch kernels. A
    function is called once for each block, with a block (idx, num, args) and as many arguments of the launch as it takes: integers of 8 bytes.
    Device memory that they lead to can be read and written while it runs, also as ptr_to_numpy; block.reads(ptr, size) and
    block.writes(ptr, size) tell ropeway check of it. If it raises something, the
    launch fails with 507016, and the error has what it raised. pyACL has no such function.
    """
    from ._kernels import load_functions

    if not isinstance(functions, dict) or not functions:
        raise TypeError(f"acl.util.load_kernels: argument 1 (functions) must be a dict of functions, not {functions!r}")
    made = {}
    for name, function in functions.items():
        name = _checked("load_kernels", 1, f"functions: the name {name!r}", _text, name)
        made[name] = _checked("load_kernels", 1, f"functions[{name.decode()!r}]", callable_, function)
    return load_functions(made)


# Threads


class _Worker(threading.Thread):
    """A thread that keeps the exception of its function. As in pyACL, it does not keep the process alive."""

    def __init__(self, function, argument):
        super().__init__(name="acl.util.start_thread", daemon=True)
        self.function, self.argument, self.error = function, argument, None

    def run(self):
        try:
            self.function(self.argument)
        except BaseException as error:
            self.error = error
        finally:
            del self.function, self.argument


# By thread id, the threads that stop_thread has not been called for. The system reuses the id of a thread
# that has ended, so there may be several, oldest first.
_workers = {}


def start_thread(fn: Callable[[Any], Any], arg: Any, /) -> Tuple[int, int]:
    """acl.util.start_thread(fn, arg) -> (tid, ret)

    Starts a thread that calls fn(arg). tid is its pthread id, as subscribe_report takes it.
    """
    worker = _Worker(_checked("start_thread", 1, "fn", callable_, fn), arg)
    worker.start()
    _workers.setdefault(worker.ident, []).append(worker)
    return worker.ident, 0


def stop_thread(tid: SupportsIndex, /) -> int:
    """acl.util.stop_thread(tid) -> ret

    Waits until the function of a thread has returned. Raises RuntimeError if it raised something; returns 100000 for a
    thread that start_thread has not started, or that has been stopped before.
    """
    tid = _checked("stop_thread", 1, "tid", u64, tid)
    waiting = _workers.get(tid)
    if not waiting:
        return _INVALID_PARAM
    worker = waiting[0]
    worker.join()
    try:
        waiting.remove(worker)
    except ValueError:
        return _INVALID_PARAM  # another thread has stopped it
    if not waiting:
        _workers.pop(tid, None)
    if worker.error is not None:
        raise RuntimeError(f"acl.util.stop_thread: the function of the thread raised {worker.error!r}") from worker.error
    return 0
