"""The plain functions of acl, acl.rt and acl.prof over ctypes, made from the table: for places without the extension."""

import ctypes
import math
import time
from operator import index

from . import _forms

# In the order of ROPEWAY_WAIT_… in the C library.
WAITS = ("stream", "event", "device", "report", "host_func")

# How long, in milliseconds, a wait may leave Python without a look at its signals.
SLICE = 50

# By type of the table: the C type, and the least and the largest integer it takes. Unsigned types take negative numbers
# as their complement.
TYPES = {
    "address": (ctypes.c_uint64, -(1 << 63), (1 << 64) - 1),
    "handle": (ctypes.c_uint64, -(1 << 63), (1 << 64) - 1),
    "uint64": (ctypes.c_uint64, -(1 << 63), (1 << 64) - 1),
    "int64": (ctypes.c_int64, -(1 << 63), (1 << 63) - 1),
    "uint32": (ctypes.c_uint32, -(1 << 31), (1 << 32) - 1),
    "int32": (ctypes.c_int32, -(1 << 31), (1 << 31) - 1),
    "uint16": (ctypes.c_uint16, -(1 << 15), (1 << 16) - 1),
    "float": (ctypes.c_float, None, None),
    "code": (ctypes.c_int32, None, None),
    "none": (None, None, None),
}


def functions(library):
    """The functions by module and name."""
    found = {"acl": {}, "acl.rt": {}, "acl.prof": {}}
    for form in _forms.FORMS:
        if form.kind == "plain":
            make = _waiting if form.wait else _calling
            call = make(form, library, _taking(form))
            call.__module__, call.__name__, call.__qualname__ = form.module, form.name, form.name
            call.__doc__ = form.doc
            found[form.module][form.name] = call
    return found


def _taking(form):
    """The function that checks arguments: it returns them as C takes them."""
    count = len(form.params)
    limits = [TYPES[typ][1:] for _, typ in form.params]

    def take(args):
        if len(args) != count:
            names = ", ".join(name for name, _ in form.params) or "none"
            raise TypeError(f"{form.path}: takes {count} argument{'' if count == 1 else 's'} ({names}), not {len(args)}")
        for arg, (least, most) in zip(args, limits):
            if type(arg) is not int or least is None or not least <= arg <= most:
                return [_take(form, i, typ, arg) for i, ((_, typ), arg) in enumerate(zip(form.params, args))]
        return args  # nothing but integers that fit: ctypes makes the complement

    return take


def _take(form, i, typ, arg):
    kind, least, most = TYPES[typ]
    try:
        if typ == "float":
            return float(arg) if not isinstance(arg, (str, bytes, bytearray)) else float(index(arg))
        number = index(arg)
    except TypeError:
        raise TypeError(
            f"{form.path}: argument {i + 1} ({form.params[i][0]}) must be {'float' if typ == 'float' else 'int'}, "
            f"not {type(arg).__name__}{_hint(typ, arg)}"
        ) from None
    except OverflowError:
        number, least, most = 1, 0, 0
    if not least <= number <= most:
        bits = 8 * ctypes.sizeof(kind)
        raise OverflowError(f"{form.path}: argument {i + 1} ({form.params[i][0]}) does not fit {bits} bits")
    return number


def _hint(typ, arg):
    if typ not in ("address", "handle"):
        return ""
    if isinstance(arg, bytes):
        return "; use acl.util.bytes_to_ptr"
    if type(arg).__name__ == "ndarray":
        return "; use acl.util.numpy_contiguous_to_ptr"
    return "; NULL is 0" if arg is None else ""


def _bind(form, library):
    """The C function. By index it is a new object, so its types are nobody else's."""
    function = library[form.c]
    function.restype = TYPES[form.ret][0]
    function.argtypes = [_argtype(form, i) for i in form.args]
    return function


def _argtype(form, i):
    if i is None:
        return ctypes.c_void_p
    if i >= 0:
        return TYPES[form.params[i][1]][0]
    return ctypes.POINTER(TYPES[form.results[-1 - i][1]][0])


def _calling(form, library, take):
    function = _bind(form, library)
    if not form.results:
        return lambda *args: function(*take(args))  # the order of Python is that of C
    names = [name for name, _ in form.params]
    outputs = [TYPES[typ][0] for _, typ in form.results]
    back = {j: names.index(name) for j, (name, _) in enumerate(form.results) if -1 - j not in form.args and name in names}

    def call(*args):
        values = take(args)
        cells = [kind() for kind in outputs]
        for j, i in back.items():
            cells[j].value = values[i]
        ret = function(*[None if i is None else values[i] if i >= 0 else cells[-1 - i] for i in form.args])
        return (*[cell.value for cell in cells], ret)

    return call


def _waiting(form, library, take):
    """As the extension waits: in slices of ropeway_wait, and the last slice with a timeout is the real call."""
    real = _bind(form, library)
    wait = library["ropeway_wait"]
    wait.argtypes = [ctypes.c_int32, ctypes.c_uint64, ctypes.c_int32, ctypes.POINTER(ctypes.c_int32)]
    what = WAITS.index(form.wait)
    timed = bool(form.params) and form.params[-1][0] == "timeout"
    handled = form.wait in ("stream", "event")

    def call(*args):
        values = list(take(args))
        handle = values[0] if handled else 0
        timeout = values[-1] if timed else -1
        end = time.monotonic() + timeout / 1000
        over = ctypes.c_int32()
        while timeout == -1 or values[-1] > SLICE:
            ret = wait(what, handle, SLICE, over)
            if over.value:
                return ret
            if timed:
                values[-1] = max(math.ceil(1000 * (end - time.monotonic())), 1)
        return real(*values)

    return call
