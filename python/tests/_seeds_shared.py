"""What the tests of the seed documents share: the machine they run on, its codes, and streams that wait."""

import contextlib
import ctypes
import os
import threading

import acl
from acl import rt, util
from support import HANG

H2H, H2D, D2H, DEFAULT, INNER = 0, 1, 2, 4, 6  # as programs for pyACL define them
INVALID_PARAM, PARAM_INVALID, INVALID_HANDLE, UNSUPPORTED, TASK_FAILS = 100000, 107000, 107017, 207000, 507013
PRODUCTS = {  # and how the names of their chips begin
    "A2": "Ascend910B",
    "A3": "Ascend910_9",
    "950": "Ascend950",
    "310B": "Ascend310B",
    "310P": "Ascend310P",
    "910": "Ascend910A",
    "310": "Ascend310",
}
NOBODY = 2**64 - 1  # SIZE_MAX
ROOM = 8192
OLD, NEW = 40, 90  # patterns that differ in every byte: what memory holds before a copy and after it
GARBAGE = 0x123456789  # a handle of nothing
_PATTERNS = {seed: bytes((7 * i + seed) & 0xFF for i in range(ROOM)) for seed in (0, 1, OLD, NEW)}


class Scene:
    """The memory and the streams that the tests use. The main thread has the primary context of device 0."""

    def __init__(self):
        ok(acl.init())
        ok(rt.set_device(0))
        home = ok(rt.get_context())
        self.stream = ok(rt.create_stream())
        self.gone = ok(rt.create_stream())
        ok(rt.destroy_stream(self.gone))
        self.dev = [ok(rt.malloc(ROOM, 0)) for _ in range(4)]
        self.pin = [ok(rt.malloc_host(ROOM)) for _ in range(4)]
        self._pageable = [ctypes.create_string_buffer(ROOM + 64) for _ in range(4)]
        self.page = [ctypes.addressof(b) + -ctypes.addressof(b) % 64 for b in self._pageable]
        ok(rt.create_context(0))
        self.foreign = ok(rt.create_stream())  # of another context
        ok(rt.set_context(home))


def ok(result):
    """The results of a call that has to succeed."""
    *values, code = result if isinstance(result, tuple) else (result,)
    if code != 0:
        raise AssertionError(f"{code}: {acl.get_recent_err_msg()}")
    return values[0] if len(values) == 1 else tuple(values)


def fill(ptr, seed):
    """Writes a pattern into all of a place."""
    ok(rt.memcpy(ptr, ROOM, util.bytes_to_ptr(_PATTERNS[seed]), ROOM, DEFAULT))


def read(ptr, size):
    data = bytes(bytearray(size))
    ok(rt.memcpy(util.bytes_to_ptr(data), size, ptr, size, DEFAULT))
    return data


def holds(ptr, size, seed, start=0):
    """Whether memory holds a pattern from some byte of the pattern on."""
    return read(ptr, size) == _PATTERNS[seed][start : start + size]


def expect(condition, what="it"):
    if not condition:
        raise AssertionError(f"{what} does not hold")


def same(want, got):
    expect(want == got, f"{got}, where {want} is wanted,")


class Sentences:
    """The machine, and what the tests share."""

    def __init__(self, scene):
        self.s = scene
        self.product = os.environ["ROPEWAY_PRODUCT"]
        self.rc, self.strict = os.environ["ROPEWAY_FORM"] == "RC", os.environ["ROPEWAY_STRICT"] == "1"
        self.oldest = self.product == "310"

    def synchronise(self):
        return rt.synchronize_stream(self.s.stream)

    @contextlib.contextmanager
    def blocked(self, stream):
        """What is put on the stream in the block waits for its end, which waits for it in turn."""
        gate = threading.Event()
        ok(rt.launch_host_func(stream, lambda _: gate.wait(HANG), None))
        yield
        gate.set()
        ok(rt.synchronize_stream(stream))

    @contextlib.contextmanager
    def elsewhere(self):
        """A stream whose work another stream's synchronisation does not wait for."""
        stream = ok(rt.create_stream())
        with self.blocked(stream):
            yield stream
        ok(rt.destroy_stream(stream))
