"""Python functions that the runtime calls.

One C function serves all launches: it gets a number and looks up the function. So no launch leaks memory, and C never has
an address of an object that Python may free.

A launch on a stream that is being captured runs at each execution of the model, and is removed when the model is destroyed.

Any other launch is removed when it has run. A launch that will never run (its stream was aborted or destroyed, its thread
unsubscribed) is removed when a later launch of the same stream runs, because a stream keeps the order. Launches of destroyed
streams are removed by a check of all streams whenever the number of launches has doubled, in a thread that the first launch
starts.

When the interpreter ends, launched functions get a moment to run, including those of queued models. Then the remaining ones
are dropped together with the other work of their streams, and the runtime stops calling functions of this module: it must
not call into an interpreter that has ended.
"""

import _thread
import atexit
import contextlib
import itertools
import os
import sys
import threading
import time
import traceback
import types
from ctypes import CFUNCTYPE, POINTER, byref, c_int, c_size_t, c_uint64, c_void_p

from . import _checking
from ._arguments import Bad, address, callable_, form, i32
from ._library import c_function, library, set_runner

_INTERNAL_ERROR = 500000  # ACL_ERROR_INTERNAL_ERROR
_INVALID_HANDLE = 107017  # ACL_ERROR_RT_INVALID_HANDLE

_HOST_FUNC = "acl.rt.launch_host_func"
_DATA_FUNCTION = CFUNCTYPE(None, c_void_p)


def _c(name, *argtypes):
    function = library[name]
    function.argtypes, function.restype = argtypes, c_int
    return function


_aclrtLaunchCallback = _c("aclrtLaunchCallback", _DATA_FUNCTION, c_void_p, c_int, c_void_p)
_aclrtLaunchHostFunc = _c("aclrtLaunchHostFunc", c_void_p, _DATA_FUNCTION, c_void_p)
_aclrtSetExceptionInfoCallback = _c("aclrtSetExceptionInfoCallback", _DATA_FUNCTION)
_aclrtCtxGetCurrentDefaultStream = _c("aclrtCtxGetCurrentDefaultStream", POINTER(c_void_p))
_aclrtGetCurrentContext = _c("aclrtGetCurrentContext", POINTER(c_void_p))
_aclrtSetCurrentContext = _c("aclrtSetCurrentContext", c_void_p)
_aclrtStreamQuery = _c("aclrtStreamQuery", c_void_p, POINTER(c_int))
_aclrtStreamAbort = _c("aclrtStreamAbort", c_void_p)
_aclrtDestroyStreamForce = _c("aclrtDestroyStreamForce", c_void_p)
_aclmdlRICaptureGetInfo = _c("aclmdlRICaptureGetInfo", c_void_p, POINTER(c_int), POINTER(c_void_p))
_aclmdlRIDestroyRegisterCallback = _c("aclmdlRIDestroyRegisterCallback", c_void_p, _DATA_FUNCTION, c_void_p)
_aclmdlRIAbort = _c("aclmdlRIAbort", c_void_p)
_ropeway_executions = c_function("ropeway_executions", restype=c_uint64)
_ropeway_retire = c_function("ropeway_retire", c_void_p, restype=None)


class _Launch:
    """A function queued on a stream."""

    __slots__ = ("number", "path", "function", "data", "stream", "context", "begun", "accepted", "model")

    def __init__(self, path, function, data):
        self.path, self.function, self.data = path, function, data
        self.accepted = None  # when the runtime accepted it, in ticks; then stream and context are set
        self.model = None  # the model whose task it is


class _Launches:
    """The launches that have not run. Methods may be called from any thread.

    No user code runs in them: they return the launches they remove, so that these are freed with no lock
 # held.
    """

    LEAST = 64  # the number of launches above which their streams are checked

    def __init__(self):
        self.lock = threading.RLock()  # a signal handler may launch something, too
        self.ticks = itertools.count(1)
        self.by_number = {}
        self.by_model = {}  # model: its launches, which run as often as the model
        self.by_stream = {}  # stream: {number: launch}; launches that the runtime accepted, oldest first
        self.look_at = self.LEAST  # check the streams when there are this many launches
        self.running = 0
        self.closed = False  # no more launches are accepted
        self.giving_up = False  # the remaining launches must be dropped
        self.given_up = threading.Event()
        self.wake = threading.Event()  # wakes the attendant
        self.attendant = None

    def add(self, launch):
        """Adds a launch before it is passed to the runtime. False when the interpreter is about to end."""
        with self.lock:
            if self.closed:
                return False
            launch.number = launch.begun = next(self.ticks)
            self.by_number[launch.number] = launch
            if self.attendant is None:
                self.attendant = threading.Thread(target=self.attend, name="acl-launches", daemon=True)
                with contextlib.suppress(RuntimeError):  # an interpreter about to end starts no threads
                    self.attendant.start()
            if len(self.by_number) >= self.look_at:
                self.look_at = sys.maxsize  # until the check is over
                self.wake.set()
            return True

    def accept(self, launch, stream, context):
        """Records that the runtime accepted the launch, which may already have run. Returns the launches it
        removed."""
        with self.lock:
            launch.stream, launch.context, launch.accepted = stream, context, next(self.ticks)
            if launch.number not in self.by_number:
                return self._take_older(launch)
            self.by_stream.setdefault(stream, {})[launch.number] = launch
            return []

    def begin(self, number):
        """Returns the launch that must run now, None if it was dropped, and the launches it removed."""
        with self.lock:
            launch = self.by_number.get(number)
            if launch is None or self.giving_up:
                return None, []
            older = []
            if not launch.model:
                self.drop(launch)
                older = self._take_older(launch)
            self.running += 1
            return launch, older

    def keep(self, launch, model, context):
        """Makes a launch a task of a model. True for the first one of the model."""
        with self.lock:
            launch.model, launch.context = model, context
            first = model not in self.by_model
            self.by_model.setdefault(model, []).append(launch)
            return first

    def forget(self, model):
        """Removes the launches of a model, and returns them."""
        with self.lock:
            gone = self.by_model.pop(model, [])
            for launch in gone:
                self.by_number.pop(launch.number, None)
            return gone

    def drop(self, launch):
        """Removes a launch."""
        with self.lock:
            self.by_number.pop(launch.number, None)
            if launch.accepted is None:
                return
            siblings = self.by_stream.get(launch.stream, {})
            siblings.pop(launch.number, None)
            if not siblings:
                self.by_stream.pop(launch.stream, None)

    def _take_older(self, launch):
        """Removes launches that the stream accepted before this one began: they have run or never will."""
        if launch.accepted is None:
            return []
        siblings = list(self.by_stream.get(launch.stream, {}).values())  # a signal handler may launch something meanwhile
        older = list(itertools.takewhile(lambda other: other.accepted < launch.begun, siblings))
        for other in older:
            self.drop(other)
        return older

    def end(self):
        with self.lock:
            self.running -= 1

    def attend(self):
        """Runs in a thread of its own, where errors of queries do not matter and an abort may take long."""
        while not self.giving_up:
            self.wake.wait()
            self.wake.clear()
            self.look()
        with _checking.unjudged():
            for stream, context in {launch.stream: launch.context for launch in self.left()}.items():
                if _aclrtSetCurrentContext(context) == 0 and _aclrtStreamAbort(stream) != 0:
                    _aclrtDestroyStreamForce(stream)
            for model, launches in list(self.by_model.items()):
                if _aclrtSetCurrentContext(launches[0].context) == 0:
                    _aclmdlRIAbort(model)
        self.given_up.set()

    def look(self):
        """Removes the launches of destroyed streams."""
        with self.lock:
            streams = list(self.by_stream)
        with _checking.unjudged():
            gone = [stream for stream in streams if _aclrtStreamQuery(stream, byref(c_int())) == _INVALID_HANDLE]
        with self.lock:
            forgotten = [launch for stream in gone for launch in self.by_stream.get(stream, {}).values()]
            for launch in forgotten:
                self.drop(launch)
            self.look_at = max(self.LEAST, 2 * len(self.by_number))

    def to_run(self):
        """The number of functions that run or must run, also in executions of models."""
        executions = _ropeway_executions() if self.by_model else 0
        return self.running + executions + sum(launch.path == _HOST_FUNC for launch in self.left())

    def left(self):
        """The launches that the runtime accepted."""
        with self.lock:
            return [launch for launch in self.by_number.values() if launch.accepted is not None]


_launches = _Launches()


def _after_fork():
    """A child of a fork has no runtime. Its parent's launches are not its own, nor are the locks."""
    global _launches
    _launches = _Launches()


os.register_at_fork(after_in_child=_after_fork)


def _run_number(number):
    """Called by the runtime for every launch, with its number."""
    launches = _launches
    launch, older = launches.begin(number)
    if launch is None:
        return
    del older
    try:
        _call(launch.path, launch.function, launch.data)
    finally:
        launches.end()


# The function passed to C: the extension checks for signals before it calls _run_number.
_run = _DATA_FUNCTION(set_runner(_run_number))


@_DATA_FUNCTION
def _forget_model(model):
    """Called by the runtime when a model is destroyed."""
    _launches.forget(model)


def _call(path, function, *arguments):
    """Calls a function of the program. Exceptions are reported and not raised: no code could catch them."""
    try:
        return function(*arguments)
    except KeyboardInterrupt as error:
        if threading.get_ident() != threading.main_thread().ident:
            _tell(path, function, error)
            return None
        # Ctrl-C while the function ran inside a call of the main thread: interrupt the program once the call
        # returns.
        _thread.start_new_thread(_thread.interrupt_main, ())
    except BaseException as error:
        _tell(path, function, error)
    return None


def _tell(path, function, error):
    """Passes an exception that no code can catch to sys.unraisablehook."""
    raised = types.SimpleNamespace(
        exc_type=type(error),
        exc_value=error,
        exc_traceback=error.__traceback__,
        err_msg=f"Exception ignored in function of {path}",
        object=function,
    )
    hook = sys.unraisablehook
    try:
        if hook is not sys.__unraisablehook__:
            hook(raised)
        elif sys.stderr is not None:  # the interpreter's own hook only accepts the interpreter's own type
            text = "".join(traceback.format_exception(raised.exc_type, error, raised.exc_traceback))
            sys.stderr.write(f"{raised.err_msg}: {function!r}\n{text}")
            sys.stderr.flush()
    except BaseException:  # no code can catch exceptions of a hook, either
        pass


def _launch(path, function, data, stream, submit):
    """Queues a function on a stream. submit makes the C call, with its number."""
    launch = _Launch(path, function, data)
    if not _launches.add(launch):
        return _INTERNAL_ERROR
    ret = submit(launch.number)
    if ret:
        _launches.drop(launch)
        return ret
    context, actual = c_void_p(), c_void_p(stream)
    _aclrtGetCurrentContext(byref(context))
    if stream:  # a default stream is never captured
        status, model = c_int(), c_void_p()
        with _checking.unjudged():
            found = _aclmdlRICaptureGetInfo(stream, byref(status), byref(model)) == 0
        if found and status.value:
            if _launches.keep(launch, model.value, context.value):
                _aclmdlRIDestroyRegisterCallback(model, _forget_model, model)
            return 0
    if not stream:
        _aclrtCtxGetCurrentDefaultStream(byref(actual))
    _launches.accept(launch, actual.value, context.value)
    return 0


def _anything(value):
    return value


@form(callable_, _anything, i32, address)
def rt_launch_callback(fn, user_data, block_type, stream, /):
    """fn(user_data) runs in the subscribed thread, inside process_report. What it raises goes to sys.unraisablehook."""
    return _launch(
        "acl.rt.launch_callback", fn, user_data, stream,
        lambda number: _aclrtLaunchCallback(_run, number, block_type, stream),
    )  # fmt: skip


@form(address, callable_, _anything)
def rt_launch_host_func(stream, fn, args, /):
    """What fn raises goes to sys.unraisablehook, and the stream goes on. fn must not call functions of acl."""
    return _launch(_HOST_FUNC, fn, args, stream, lambda number: _aclrtLaunchHostFunc(stream, _run, number))


# The exception callback

_on_exception = None  # the function of the program


@_DATA_FUNCTION
def _run_on_exception(info):
    function = _on_exception
    if function is not None:
        _call("acl.rt.set_exception_info_callback", function, info or 0)


def _callable_or_none(value):
    return None if value is None else callable_(value)


@form(_callable_or_none)
def rt_set_exception_info_callback(fn, /):
    """fn(info) runs in a thread of the runtime. info is good for get_*_from_exception_info until fn returns."""
    global _on_exception
    if fn is None:
        ret = _aclrtSetExceptionInfoCallback(_DATA_FUNCTION())
        _on_exception = None
        return ret
    before, _on_exception = _on_exception, fn
    ret = _aclrtSetExceptionInfoCallback(_run_on_exception)
    if ret:
        _on_exception = before
    return ret


# Allocators. The functions of a descriptor are kept for ever, because the end of its use is unknown.

_ALLOC = CFUNCTYPE(c_void_p, c_void_p, c_size_t)
_FREE = CFUNCTYPE(None, c_void_p, c_void_p)
_ALLOC_ADVISE = CFUNCTYPE(c_void_p, c_void_p, c_size_t, c_void_p)
_GET_ADDR = CFUNCTYPE(c_void_p, c_void_p)

_allocator_functions = {}  # (descriptor, C function): the ctypes function whose address C has


def _allocator_form(name, c_name, kind, gives_address):
    """The form that sets a function of an allocator. Its arguments are integers, and so is its result."""
    c_function = _c(c_name, c_void_p, kind)
    path = f"acl.rt.{name}"

    def set_function(desc, func, /):
        def called(*arguments):
            result = _call(path, func, *[argument or 0 for argument in arguments])
            return _address_or_null(path, func, result) if gives_address else None

        made = kind(called)
        ret = c_function(desc, made)
        if ret == 0:
            _allocator_functions[desc, c_name] = made
        return ret

    set_function.__name__ = f"rt_{name}"
    return form(address, callable_)(set_function)


def _address_or_null(path, func, result):
    if result is None:
        return None
    try:
        return c_uint64(address(result)).value
    except Bad as bad:
        _tell(path, func, bad.kind(f"{path}: the result of the function {bad.what}"))
        return None


rt_allocator_set_alloc_func_to_desc = _allocator_form(
    "allocator_set_alloc_func_to_desc", "aclrtAllocatorSetAllocFuncToDesc", _ALLOC, True
)
rt_allocator_set_free_func_to_desc = _allocator_form(
    "allocator_set_free_func_to_desc", "aclrtAllocatorSetFreeFuncToDesc", _FREE, False
)
rt_allocator_set_alloc_advise_func_to_desc = _allocator_form(
    "allocator_set_alloc_advise_func_to_desc", "aclrtAllocatorSetAllocAdviseFuncToDesc", _ALLOC_ADVISE, True
)
rt_allocator_set_get_addr_from_block_func_to_desc = _allocator_form(
    "allocator_set_get_addr_from_block_func_to_desc", "aclrtAllocatorSetGetAddrFromBlockFuncToDesc", _GET_ADDR, True
)

_aclrtAllocatorGetByStream = _c("aclrtAllocatorGetByStream", c_void_p, *[POINTER(c_void_p)] * 6)


@form(address)
def rt_allocator_get_by_stream(stream, /):
    """The registered values as integers; the functions are addresses of C functions."""
    found = [c_void_p() for _ in range(6)]
    ret = _aclrtAllocatorGetByStream(stream, *map(byref, found))
    return (*[each.value or 0 for each in found], ret)


# The end of the interpreter

_GRACE = 1.0  # seconds without progress after which launches are dropped


@atexit.register
def _close():
    """Stops the runtime from calling Python."""
    launches = _launches
    with launches.lock:
        launches.closed = True
    if _on_exception is not None:
        _aclrtSetExceptionInfoCallback(_DATA_FUNCTION())
    _wait_for_progress(launches.to_run)
    if launches.left() or launches.by_model and _ropeway_executions():
        launches.giving_up = True
        launches.wake.set()
        # An abort drops launches that have not begun and then waits for running ones, perhaps for ever; so
        # this wait is limited.
        launches.given_up.wait(_GRACE)
    for function in (_run, _forget_model, _run_on_exception):
        _ropeway_retire(function)


def _wait_for_progress(remaining):
    """Waits until remaining() is 0, or has not changed for a while."""
    before, since = remaining(), time.monotonic()
    while before and time.monotonic() - since < _GRACE:
        time.sleep(0.001)
        now = remaining()
        if now != before:
            before, since = now, time.monotonic()
