"""The checker (ropeway check, or ROPEWAY_CHECK=1): what it has found, and where the program is, for it or the recorder.

Before each call the Python frames of the calling thread go into the thread's record, of which the checker takes a copy if the
call queues something. For an access to memory it asks for them. The extension does that itself; without it, it is done here.
Of a program that is recorded (ropeway trace, or ROPEWAY_TRACE=DIR) the innermost frame goes into the thread's site.
"""

import atexit
import contextlib
import ctypes
import json
import opcode
import os
import sys
from ctypes import CFUNCTYPE, POINTER, c_char_p, c_uint32, c_uint64, c_void_p

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

_DEPTH = 32  # ROPEWAY_DEPTH of the C library
_MOST_CODES = 1 << 16
_DROPPED = 1 << 31  # ROPEWAY_DROPPED of the C library
_POP_TOP = opcode.opmap["POP_TOP"]  # what is behind a call whose value is dropped


class _Name(ctypes.Structure):
    _fields_ = [("name", c_uint32), ("line", c_uint32)]


class _Site(ctypes.Structure):
    """ropeway_site."""

    _fields_ = [("address", c_uint64), ("name", c_uint32), ("line", c_uint32)]


class _Call(ctypes.Structure):
    """The beginning of ropeway_call."""

    _fields_ = [
        ("function", c_uint32),
        ("depth", c_uint32),
        ("slots", c_void_p),
        ("stack", c_uint64 * _DEPTH),
        ("named", c_uint32),
        ("names", _Name * _DEPTH),
    ]


_kept = []  # what the checker holds the address of
_checker = None  # the checker's library; None: checking is off
_ignore = None  # a function of the C library: the calling thread is judged less by one, or more


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
    global _checker, _ignore
    if os.environ.get("ROPEWAY_CHECK", "") in ("", "0"):
        if os.environ.get("ROPEWAY_TRACE", "") != "":
            _record(library, extension)
        return
    checker = _find(library, places)
    if checker is None:
        return  # the library says so at the first call
    checker.ropeway_check_report.argtypes, checker.ropeway_check_report.restype = [], c_void_p
    checker.ropeway_check_free.argtypes, checker.ropeway_check_free.restype = [c_void_p], None
    _checker, _ignore = checker, library["ropeway_checking_ignore"]
    _ignore.argtypes, _ignore.restype = [ctypes.c_int], None
    if extension is None:
        note, forget = _in_python(checker)
    elif _in_extension(extension, True):
        note, forget = extension.note_frames, extension.forget_frames
    else:
        return
    _watch(library, note, forget)
    # A thread that touches memory while the interpreter ends must not wait for it.
    atexit.register(checker.ropeway_check_frames_by, None)


def _in_extension(extension, checked):
    """Whether the extension can report to the checker, or else the recorder, where the program is."""
    return extension.watch_frames(checked, *(tuple(map(os.fsencode, texts)) for texts in (LEFT_OUT, OUTERMOST)))


def _record(library, extension):
    """Begins to report to the recorder where the program is."""
    if extension is None:
        note, forget = _sites_in_python(library)
    elif _in_extension(extension, False):
        note, forget = extension.note_frames, extension.forget_frames
    else:
        return
    _watch(library, note, forget)


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


def _watch(library, note, forget):
    """From now on, functions that are taken from library report where they are called."""
    plain = library._FuncPtr

    class Watched(plain):
        _flags_, _restype_ = plain._flags_, plain._restype_

        def __call__(self, *arguments):
            note()
            try:
                return plain.__call__(self, *arguments)
            finally:
                forget()

    library._FuncPtr = Watched


def _numbers(name):
    """What finds the number of a frame's function, by name: 0 to leave it out, None for an outermost one."""
    codes = {}  # by the address of a code object: its number, and itself

    def judge(code):
        file = code.co_filename
        if not any(part in file for part in LEFT_OUT):
            return name(os.fsencode(file), os.fsencode(getattr(code, "co_qualname", code.co_name)))
        return None if code.co_name in OUTERMOST else 0

    def number(frame):
        code = frame.f_code
        known = codes.get(id(code))
        if known is None:
            known = judge(code) if len(codes) < _MOST_CODES else 0, code
            if len(codes) < _MOST_CODES:
                codes[id(code)] = known
        return known[0]

    return number


def _sites_in_python(library):
    """What notes and forgets the innermost frame, for places without the extension."""
    held = ctypes.PyDLL(None, handle=library._handle)  # the interpreter lock is kept: these calls take no time
    site, name = held["ropeway_site_of_thread"], held["ropeway_name_frame"]
    site.argtypes, site.restype = [], POINTER(_Site)
    name.argtypes, name.restype = [c_char_p, c_char_p], c_uint32
    number = _numbers(name)

    def note():
        frame = sys._getframe()
        while frame is not None:
            known = number(frame)
            if known:
                site().contents.name, site().contents.line = known, frame.f_lineno or 0
                return
            frame = frame.f_back

    def forget():
        site().contents.name = 0

    return note, forget


def _in_python(checker):
    """What notes and forgets frames, for places without the extension."""
    held = ctypes.PyDLL(None, handle=checker._handle)  # the interpreter lock is kept: these calls take no time
    record, name = held["ropeway_check_record"], held["ropeway_check_name_frame"]
    record.argtypes, record.restype = [], POINTER(_Call)
    name.argtypes, name.restype = [c_char_p, c_char_p], c_uint32
    number = _numbers(name)

    def drops(frame):
        code, at = frame.f_code.co_code, frame.f_lasti + 2
        while at < len(code) and code[at] == 0:  # room for the interpreter
            at += 2
        return at < len(code) and code[at] == _POP_TOP

    def write(call, frame):
        n = 0
        while frame is not None and n < _DEPTH:
            known = number(frame)
            if known is None:
                break
            if known:
                line = frame.f_lineno or 0
                call.names[n].name, call.names[n].line = known, line | _DROPPED if n == 0 and drops(frame) else line
                n += 1
            frame = frame.f_back
        call.named = n

    def note():
        write(record().contents, sys._getframe())

    def forget():
        record().contents.named = 0

    @CFUNCTYPE(None, POINTER(_Call))
    def provide(call):
        write(call.contents, sys._getframe())

    checker.ropeway_check_frames_by(provide)
    _kept.append(provide)
    return note, forget
