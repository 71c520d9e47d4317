"""The checker (ropeway check, or ROPEWAY_CHECK=1): its findings, and the program's frames for it or the
recorder.

Before each call the extension writes the Python frames of the calling thread to the thread's record, which
the checker copies if the call queues something. For a memory access the checker requests them. If a program
is recorded (ropeway trace, or ROPEWAY_TRACE=DIR), the extension writes the innermost frame to the thread's
site.
"""

import atexit
import contextlib
import ctypes
import json
import os
from ctypes import c_void_p

NAME = "libropeway_check.so"

# Parts of the names of files whose functions are omitted: this package, the import of modules, and test
# runners.
LEFT_OUT = (
    os.path.join(os.path.dirname(os.path.abspath(__file__)), ""),
    os.path.join(os.path.dirname(os.__file__), "unittest", ""),
    "/_pytest/",
    "/pluggy/",
    "<frozen importlib",
    "<frozen runpy>",
)

# Functions in these files at which a stack ends: they call tests, fixtures and modules with tests.
OUTERMOST = (
    "_callCleanup", "_callSetUp", "_callTearDown", "_callTestMethod",
    "_importtestmodule", "_teardown_yield_fixture", "call_fixture_func", "pytest_pyfunc_call",
    "pytest_runtest_call", "pytest_runtest_setup", "pytest_runtest_teardown",
)  # fmt: skip

_checker = None  # the checker's library; None: checking is off
_ignore = None  # a function of the C library that stops (1) or resumes (-1) judging the calling thread
_tell = None  # a function of the C library by which the program starts (1) or stops (-1) printing findings
             # itself


def on():
    """Whether this process is checked."""
    return _checker is not None


def findings():
    """The findings so far: dictionaries, oldest first. Identical findings are one entry with a count."""
    if _checker is None:
        return []
    report = _checker.ropeway_check_report()
    if not report:
        return []  # no function of the library has been called
    try:
        return json.loads(ctypes.string_at(report)) or []
    finally:
        _checker.ropeway_check_free(report)


@contextlib.contextmanager
def told():
    """Findings inside the block are printed by the program: the checker only counts them."""
    _tell(1)
    try:
        yield
    finally:
        _tell(-1)


@contextlib.contextmanager
def unjudged():
    """Actions of the calling thread inside the block are this package's own, and never findings."""
    if _checker is None:
        yield
        return
    _ignore(1)
    try:
        yield
    finally:
        _ignore(-1)


def start(library, places, extension):
    """Starts reporting the program's frames to the checker, or the recorder. Functions taken from library
    later report them."""
    global _checker, _ignore, _tell
    if os.environ.get("ROPEWAY_CHECK", "") in ("", "0"):
        if os.environ.get("ROPEWAY_TRACE", "") != "":
            _record(library, extension)
        return
    checker = _find(library, places)
    if checker is None:
        return  # the library reports that at the first call
    checker.ropeway_check_report.argtypes, checker.ropeway_check_report.restype = [], c_void_p
    checker.ropeway_check_free.argtypes, checker.ropeway_check_free.restype = [c_void_p], None
    _checker, _ignore, _tell = checker, library["ropeway_checking_ignore"], library["ropeway_checking_tell"]
    for function in _ignore, _tell:
        function.argtypes, function.restype = [ctypes.c_int], None
    if not _report_frames(extension, True):
        return
    _watch(library, extension)
    # A thread that accesses memory while the interpreter ends must not wait for the interpreter.
    atexit.register(checker.ropeway_check_frames_by, None)


def _report_frames(extension, checked):
    """Whether the extension can report the program's frames to the checker, or else the recorder."""
    return extension.watch_frames(checked, *(tuple(map(os.fsencode, texts)) for texts in (LEFT_OUT, OUTERMOST)))


def _record(library, extension):
    """Starts reporting the program's frames to the recorder."""
    if _report_frames(extension, False):
        _watch(library, extension)


def _find(library, places):
    """The checker's library: preloaded, or beside the C library, which would load it at the first call."""
    try:
        return ctypes.CDLL(NAME, mode=os.RTLD_NOLOAD | os.RTLD_NOW)
    except OSError:
        pass
    for place in (os.path.dirname(os.path.realpath(library._name)), *places):
        path = os.path.join(place, NAME)
        if os.path.exists(path):
            try:
                return ctypes.CDLL(path, mode=os.RTLD_GLOBAL)
            except OSError:
                return None
    return None


def _watch(library, extension):
    """Makes functions that are taken from library later report their callers."""
    plain = library._FuncPtr

    class Watched(plain):
        _flags_, _restype_ = plain._flags_, plain._restype_

        def __call__(self, *arguments):
            extension.note_frames()
            try:
                return plain.__call__(self, *arguments)
            finally:
                extension.forget_frames()

    library._FuncPtr = Watched
