"""The checker (ropeway check, or ROPEWAY_CHECK=1): what it has found, and where the program is, for it or the recorder.

Before each call the Python frames of the calling thread go into the thread's record, of which the checker takes a copy if the
call queues something. For an access to memory it asks for them. The extension does that.
Of a program that is recorded (ropeway trace, or ROPEWAY_TRACE=DIR) the innermost frame goes into the thread's site.
"""

import atexit
import contextlib
import ctypes
import json
import os
from ctypes import c_void_p

NAME = "libropeway_check.so"

# Files whose functions are left out, by a part of their names: this package, the import of modules, and what runs tests.
LEFT_OUT = (
    os.path.join(os.path.dirname(os.path.abspath(__file__)), ""),
    os.path.join(os.path.dirname(os.__file__), "unittest", ""),
    "/_pytest/",
    "/pluggy/",
    "<frozen importlib",
    "<frozen runpy>",
)

# The functions in them after which a stack is of no interest: they call tests, fixtures and modules with tests.
OUTERMOST = (
    "_callCleanup", "_callSetUp", "_callTearDown", "_callTestMethod",
    "_importtestmodule", "_teardown_yield_fixture", "call_fixture_func", "pytest_pyfunc_call",
    "pytest_runtest_call", "pytest_runtest_setup", "pytest_runtest_teardown",
)  # fmt: skip

_checker = None  # the checker's library; None: checking is off
_ignore = None  # a function of the C library: the calling thread is judged less by one, or more
_tell = None  # and one by which the program begins or ends to print findings itself


def on():
    """Whether this process is checked."""
    return _checker is not None


def findings():
    """What the checker has found so far: dictionaries, oldest first. Of identical findings there is one, with a count."""
    if _checker is None:
        return []
    report = _checker.ropeway_check_report()
    if not report:
        return []  # nothing of the library has been called
    try:
        return json.loads(ctypes.string_at(report)) or []
    finally:
        _checker.ropeway_check_free(report)


@contextlib.contextmanager
def told():
    """What is found meanwhile is printed by the program: the checker only counts it."""
    _tell(1)
    try:
        yield
    finally:
        _tell(-1)


@contextlib.contextmanager
def unjudged():
    """What the calling thread does meanwhile is no finding: it is our own doing."""
    if _checker is None:
        yield
        return
    _ignore(1)
    try:
        yield
    finally:
        _ignore(-1)


def start(library, places, extension):
    """Begins to report to the checker, or the recorder, where the program is. Later functions of library are watched."""
    global _checker, _ignore, _tell
    if os.environ.get("ROPEWAY_CHECK", "") in ("", "0"):
        if os.environ.get("ROPEWAY_TRACE", "") != "":
            _record(library, extension)
        return
    checker = _find(library, places)
    if checker is None:
        return  # the library says so at the first call
    checker.ropeway_check_report.argtypes, checker.ropeway_check_report.restype = [], c_void_p
    checker.ropeway_check_free.argtypes, checker.ropeway_check_free.restype = [c_void_p], None
    _checker, _ignore, _tell = checker, library["ropeway_checking_ignore"], library["ropeway_checking_tell"]
    for function in _ignore, _tell:
        function.argtypes, function.restype = [ctypes.c_int], None
    if not _report_frames(extension, True):
        return
    _watch(library, extension)
    # A thread that touches memory while the interpreter ends must not wait for it.
    atexit.register(checker.ropeway_check_frames_by, None)


def _report_frames(extension, checked):
    """Whether the extension can report to the checker, or else the recorder, where the program is."""
    return extension.watch_frames(checked, *(tuple(map(os.fsencode, texts)) for texts in (LEFT_OUT, OUTERMOST)))


def _record(library, extension):
    """Begins to report to the recorder where the program is."""
    if _report_frames(extension, False):
        _watch(library, extension)


def _find(library, places):
    """The checker's library: preloaded, or beside the C library, which would load it itself at the first call."""
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
    """From now on, functions that are taken from library report where they are called."""
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
