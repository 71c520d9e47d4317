"""Every rule of the copy family, provoked through Python.

The families are in test_rules_*.py: classes with one method for each machine (product and form) that has rules of its own,
like on_A2. A machine needs a process of its own, so this file is also the program that runs there: "ROPEWAY_PRODUCT=310P
python3 test_rules.py 310P" proves what can be proven on a 310P and prints "rule aclrtMemcpyBatch 13" for each rule that held.
The codes come from the table (_rules.py).
"""

import contextlib
import ctypes
import importlib
import mmap
import os
import subprocess
import sys
import threading
import time
import unittest

import acl
from _rules import RULES
from acl import rt, util
from support import HANG

MACHINES = {
    "A2": {},
    "A3": {"ROPEWAY_PRODUCT": "A3"},
    "950": {"ROPEWAY_PRODUCT": "950"},
    "310P": {"ROPEWAY_PRODUCT": "310P"},
    "310": {"ROPEWAY_PRODUCT": "310"},
    "strict": {"ROPEWAY_PRODUCT": "310", "ROPEWAY_STRICT": "1"},
    "RC": {"ROPEWAY_PRODUCT": "310B", "ROPEWAY_FORM": "RC", "ROPEWAY_DRIVER": "soft"},  # no other driver has this form
}
FAMILIES = ("test_rules_copy", "test_rules_async", "test_rules_batch", "test_rules_plane", "test_rules_desc", "test_rules_fill")

_DRIVER = "the software driver never fails a copy whose addresses are good; internal/conformance injects the failure"
_FAIL_INDEX = "the module always passes a place for fail_index"

# The rules that no Python program can provoke, and why.
NOT_FROM_PYTHON = {
    ("aclrtMemcpy", 12): _DRIVER,
    ("aclrtMemcpyBatch", 1): _FAIL_INDEX,
    ("aclrtMemcpyBatch", 25): "the software driver has batch copies",
    ("aclrtMemcpyBatchAsync", 1): _FAIL_INDEX,
    ("aclrtGetMemcpyDescSize", 1): "the module always passes a place for desc_size",
}


def provable():
    """The rules that can be broken: all but those that are shadowed or need what is not built."""
    return {
        (function, number)
        for function, rules in RULES.items()
        for number, (_, _, _, mark) in enumerate(rules, 1)
        if mark not in ("shadowed", "needs")
    }


class TestRules(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        package = os.path.dirname(os.path.dirname(os.path.abspath(acl.__file__)))
        path = os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH")]))
        clean = {name: value for name, value in os.environ.items() if name not in ("ROPEWAY_PRODUCT", "ROPEWAY_FORM")}
        programs = {
            machine: subprocess.Popen(
                [sys.executable, os.path.abspath(__file__), machine],
                env={**clean, "PYTHONPATH": path, **environment},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                universal_newlines=True,
            )
            for machine, environment in MACHINES.items()
        }
        cls.outputs, cls.results = {}, {}
        try:
            for machine, program in programs.items():
                cls.outputs[machine] = program.communicate(timeout=HANG)
                cls.results[machine] = program.returncode
        finally:
            for program in programs.values():
                program.kill()
                program.wait()

    def test_each_machine(self):
        for machine, (_, errors) in self.outputs.items():
            with self.subTest(machine):
                self.assertEqual(0, self.results[machine], errors)

    def test_every_rule_was_provoked(self):
        proven = set()
        for output, _ in self.outputs.values():
            for line in output.splitlines():
                if line.startswith("rule "):
                    _, function, number = line.split()
                    proven.add((function, int(number)))
        wanted = provable()
        self.assertGreater(len(wanted), 150)
        texts = {rule: RULES[rule[0]][rule[1] - 1][0] for rule in wanted}
        self.assertEqual({}, {rule: texts[rule] for rule in wanted - proven - set(NOT_FROM_PYTHON)}, "not provoked")
        self.assertEqual(set(), proven - wanted, "provoked, but the table says that they cannot be")
        self.assertEqual(set(), proven & set(NOT_FROM_PYTHON), "NOT_FROM_PYTHON lists them, and they were provoked")
        self.assertEqual(set(), set(NOT_FROM_PYTHON) - wanted, "NOT_FROM_PYTHON lists them, and they need no proof")


# What the families share.

ROOM = 8192
OLD, NEW = 40, 90  # patterns that differ in every byte: what memory holds before a copy and after it
GARBAGE = 0x123456789  # a handle that is none
GLOBAL, THREAD_LOCAL, RELAXED = range(3)  # modes of captures
PERSISTENT = acl.ACL_STREAM_PERSISTENT
H2H, H2D, D2H, D2D, DEFAULT, BUFFERED, INNER, INTER = range(8)  # the kinds
PAGE = mmap.PAGESIZE

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


def pattern(seed, start, size):
    return bytes((7 * i + seed) & 0xFF for i in range(start, start + size))


_PATTERNS = {seed: pattern(seed, 0, ROOM) for seed in (0, 1, OLD, NEW)}


class Scene:
    """The memory and the streams that the proofs use. The main thread has the primary context of device 0."""

    def __init__(self):
        ok(acl.init())
        ok(rt.set_device(0))
        self.home = ok(rt.get_context())
        self.stream = ok(rt.create_stream())
        self.gone = ok(rt.create_stream())
        ok(rt.destroy_stream(self.gone))
        self.dev = [ok(rt.malloc(ROOM, 0)) for _ in range(4)]
        self.pin = [ok(rt.malloc_host(ROOM)) for _ in range(4)]
        self._pageable = [ctypes.create_string_buffer(ROOM + 64) for _ in range(4)]
        self.page = [ctypes.addressof(b) + -ctypes.addressof(b) % 64 for b in self._pageable]
        self.other = ok(rt.create_context(0))
        self.foreign = ok(rt.create_stream())  # of another context
        self.away = ok(rt.create_context(1))
        self.far = ok(rt.malloc(ROOM, 0))  # on device 1, without permission to reach it
        ok(rt.set_context(self.home))
        # Three pages of which the second cannot be touched.
        self._pages = mmap.mmap(-1, 3 * PAGE)
        self._pages.write(b"\x5a" * 3 * PAGE)
        self.hole = ctypes.addressof(ctypes.c_char.from_buffer(self._pages))
        if _libc.mprotect(self.hole + PAGE, PAGE, 0) != 0:
            raise OSError(ctypes.get_errno(), "mprotect")

    def hole_is_whole(self):
        """Whether what can be touched around the hole is as it was."""
        return all(ctypes.string_at(self.hole + at, PAGE) == b"\x5a" * PAGE for at in (0, 2 * PAGE))

    def fail_on(self, stream):
        """Puts a task on a stream that fails with 507013 when it runs: the kind calls pageable memory device memory."""
        ok(rt.memcpy_async(self.dev[3], 64, self.page[3], 64, D2D, stream))

    @contextlib.contextmanager
    def capturing(self, mode):
        """A stream that is captured inside the block, which does no harm to the capture."""
        stream = ok(rt.create_stream())
        ok(rt.mdl_ri_capture_begin(stream, mode))
        try:
            yield stream
        finally:
            ok(rt.mdl_ri_destroy(ok(rt.mdl_ri_capture_end(stream))))
            ok(rt.destroy_stream(stream))

    @contextlib.contextmanager
    def bound(self):
        """A stream of a model that is built by hand."""
        stream = ok(rt.create_stream_with_config(0, PERSISTENT))
        model = ok(rt.mdl_ri_build_begin(0))
        ok(rt.mdl_ri_bind_stream(model, stream, 0))
        try:
            yield stream
        finally:
            ok(rt.mdl_ri_unbind_stream(model, stream))
            ok(rt.mdl_ri_destroy(model))
            ok(rt.destroy_stream(stream))

    @contextlib.contextmanager
    def aborting(self):
        """Device 0 aborts its tasks inside the block: it cannot end before the host function does."""
        stream = ok(rt.create_stream())
        reached, gate = threading.Event(), threading.Event()

        def hold(_):
            reached.set()
            gate.wait(HANG)

        ok(rt.launch_host_func(stream, hold, None))
        reached.wait(HANG)
        codes = []
        abort = threading.Thread(target=lambda: codes.append(rt.device_task_abort(0, 0)))
        abort.start()
        try:
            while rt.mem_flush(self.dev[0], 1) == 0:  # the cheapest call that shows it
                time.sleep(0.0001)
            yield
        finally:
            gate.set()
            abort.join()
            ok(rt.destroy_stream_force(stream))
        assert codes == [0], codes


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


def freed_device():
    """Memory that is no memory any more, as long as nothing else is allocated."""
    ptr = ok(rt.malloc(ROOM, 0))
    ok(rt.free(ptr))
    return ptr


def freed_pinned():
    ptr = ok(rt.malloc_host(ROOM))
    ok(rt.free_host(ptr))
    return ptr


class Family(unittest.TestCase):
    """The rules of one function.

    good() makes the arguments of a call that succeeds, a dictionary in the order of the call. SPOIL says for each rule what
    breaks it: a function of the scene and the arguments that returns what to change. The key of a change is an argument, or
    a tuple that leads into it; "stranger" makes the call on a thread without a context.
    """

    function = ""  # of C
    form = None  # of Python
    SPOIL = {}
    PASSED_ON = {}  # rule: its code, where the table has none because it comes from elsewhere
    scene = None

    def setUp(self):
        self.s = self.scene

    def good(self):
        raise NotImplementedError

    # A rule, and the results that it demands.

    @contextlib.contextmanager
    def rule(self, number):
        """All calls in the block return what the rule says, and at least one is made. Then the rule is proven."""
        with self.subTest(f"{self.function} rule {number}"):
            self.like(self.function, number)
            if self.code is None:
                self.code = self.PASSED_ON.get(number)
            self.seen = 0
            yield
            self.assertGreater(self.seen, 0, "nothing was proven")
            print("rule", self.function, number)

    def like(self, function, number):
        """From here on the results are those of this rule."""
        _, self.code, self.quiet, _ = RULES[function][number - 1]

    def expect(self, arguments):
        """Makes the call and compares the code, the last error of the thread, and whether the message names the function."""
        arguments = dict(arguments)
        if not arguments.pop("stranger", False):
            return self.result_of(arguments)
        results, problems = [], []

        def body():
            try:
                results.append(self.result_of(arguments))
            except BaseException as problem:
                problems.append(problem)

        thread = threading.Thread(target=body)
        thread.start()
        thread.join()
        for problem in problems:
            raise problem
        return results[0]

    def result_of(self, arguments):
        self.assertIsNotNone(self.code)
        acl.get_recent_err_msg()
        rt.get_last_error(0)
        result = self.form(*arguments.values())
        code = result[-1] if isinstance(result, tuple) else result
        last, message = rt.get_last_error(0), acl.get_recent_err_msg()
        left = self.code if self.code // 1000 in (107, 207, 507) and not self.quiet else 0
        self.assertEqual((self.code, left), (code, last), f"code and last error of {self.function}{arguments}; {message}")
        if self.code:
            self.assertIn(self.function, message or "")
        self.seen += 1
        return result

    # Arguments.

    def spoiled(self, arguments, number):
        for key, value in self.SPOIL[number](self.s, arguments).items():
            *path, last = key if isinstance(key, tuple) else (key,)
            place = arguments
            for step in path:
                place = place[step]
            place[last] = value
        return arguments

    def breaks(self, number, check=lambda result: None):
        """Breaks the rule alone, then it and all later ones: both times it decides."""
        if number in self.SPOIL:
            check(self.expect(self.spoiled(self.good(), number)))
        arguments = self.good()
        for later in sorted(self.SPOIL, reverse=True):
            if later >= number:
                self.spoiled(arguments, later)
        check(self.expect(arguments))

    def prove(self, *numbers):
        for number in numbers:
            with self.rule(number):
                self.breaks(number)

    def call(self, **changes):
        """The call with good arguments but these, which has to succeed."""
        return ok(self.form(*{**self.good(), **changes}.values()))


def main(machine):
    # The families import this file by its name.
    this = importlib.import_module("test_rules")
    this.Family.scene = this.Scene()
    suite = unittest.TestSuite()
    for name in FAMILIES:
        for family in vars(importlib.import_module(name)).values():
            if isinstance(family, type) and issubclass(family, this.Family) and hasattr(family, f"on_{machine}"):
                suite.addTest(family(f"on_{machine}"))
    result = unittest.TextTestRunner(stream=sys.stderr).run(suite)
    sys.exit(not (result.wasSuccessful() and result.testsRun > 0))


if __name__ == "__main__":
    if sys.argv[1:2] and sys.argv[1] in MACHINES:
        main(sys.argv[1])
    unittest.main()
