"""What the tests of the seed documents share: the machine they run on, its codes, and streams that wait."""

import contextlib
import os
import threading

from acl import rt
from support import HANG
from test_rules import ok

H2H, H2D, D2H, INNER = 0, 1, 2, 6  # as programs for pyACL define them
INVALID_PARAM, PARAM_INVALID, INVALID_HANDLE, UNSUPPORTED, TASK_FAILS = 100000, 107000, 107017, 207000, 507013
PRODUCTS = {  # and how the names of their chips begin
    "A2": "Ascend910B",
    "A3": "Ascend910_9",
    "950": "Ascend950",
    "310B": "Ascend310B",
    "310P": "Ascend310P",
    "910": "Ascend910A",
    "310": "Ascend310",
    "IPV350": "IPV350",
}
NOBODY = 2**64 - 1  # SIZE_MAX


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
