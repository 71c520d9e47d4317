"""What the tests share: an open device, programs in processes of their own, tools that may be missing."""

import os
import shutil
import signal
import subprocess
import sys
import threading
import unittest

import acl
from acl import rt

H2D, D2H = acl.ACL_MEMCPY_HOST_TO_DEVICE, acl.ACL_MEMCPY_DEVICE_TO_HOST
HANG = 120  # seconds after which something hangs; no test comes near

# A shell starts its background jobs, and a CI system its steps, with SIGINT ignored. Programs inherit that, and Python then has
# no KeyboardInterrupt. Tests count on it: here, and in the programs they start, which inherit the default of a handled signal.
signal.signal(signal.SIGINT, signal.default_int_handler)


def missing(what):
    """A tool or a package is not there: fine on a developer's machine, a failure in CI."""
    if os.environ.get("CI"):
        raise AssertionError(f"{what} is missing")
    raise unittest.SkipTest(f"{what} is missing")


def need_numpy():
    try:
        import numpy
    except ImportError:
        missing("NumPy (Debian: apt-get install python3-numpy)")
    return numpy


def need_compiler():
    return shutil.which("gcc") or missing("gcc")


def run_program(text, *arguments, **environment):
    """Runs a Python program, a text or a file, with this acl and returns the finished process; its output is text."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(acl.__file__)))
    path = os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH")]))
    return subprocess.run(
        [sys.executable, *([] if text.endswith(".py") else ["-c"]), text, *arguments],
        env={**os.environ, "PYTHONPATH": path, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        universal_newlines=True,
        timeout=HANG,
    )


class DeviceCase(unittest.TestCase):
    """A test with device 0. What it makes with the methods here is gone afterwards."""

    def setUp(self):
        acl.init()
        self.ok(rt.set_device(0))
        rt.get_last_error(0)
        self.addCleanup(rt.reset_device, 0)

    def ok(self, result):
        """The results of a call that has to succeed."""
        *values, ret = result if isinstance(result, tuple) else (result,)
        self.assertEqual(0, ret, acl.get_recent_err_msg())
        return values[0] if len(values) == 1 else tuple(values)

    def stream(self):
        stream = self.ok(rt.create_stream())
        self.addCleanup(rt.destroy_stream_force, stream)
        return stream

    def event(self):
        event = self.ok(rt.create_event())
        self.addCleanup(rt.destroy_event, event)
        return event

    def device_memory(self, size):
        ptr = self.ok(rt.malloc(size, 0))
        self.addCleanup(rt.free, ptr)
        return ptr

    def host_memory(self, size):
        ptr = self.ok(rt.malloc_host(size))
        self.addCleanup(rt.free_host, ptr)
        return ptr

    def blocked(self, stream):
        """Blocks a stream until the function that is returned is called."""
        event, other = self.event(), self.stream()
        gate = threading.Event()
        self.addCleanup(gate.set)
        self.ok(rt.launch_host_func(other, lambda _: gate.wait(HANG), None))
        self.ok(rt.record_event(event, other))
        self.ok(rt.stream_wait_event(stream, event))
        return gate.set
