"""Finds libascendcl.so, and puts together the functions of a module.

The library is opened by its path before the extension is loaded, unless the process has one already: the extension then finds
it by its name, so there is one library in the process whatever LD_LIBRARY_PATH says.
"""

import ctypes
import importlib
import os

from . import _checking, _forms

NAME = "libascendcl.so"

_here = os.path.dirname(os.path.abspath(__file__))

# Where the library may lie: inside the package (a wheel), in the toolkit that the package is part of, or in the toolkit beside
# Python's directory (Debian's packages: /usr/lib/python3/dist-packages/acl and /usr/lib/ropeway).
_above = os.path.normpath(os.path.join(_here, "..", "..", ".."))
PLACES = (os.path.join(_here, "lib64"), os.path.join(_above, "lib64"), os.path.join(_above, "ropeway", "lib64"))


def _find():
    loaded = _already_loaded()
    if loaded is not None:
        return loaded
    for place in PLACES:
        path = os.path.join(place, NAME)
        if os.path.exists(path):
            return _open(path, path)
    return _open(NAME, "".join(f"not in {place}, " for place in PLACES) + "and by its name")


def _already_loaded():
    """The library of ours that the process has, if it has one: the extension would find that by its name, whatever its path."""
    try:
        library = ctypes.CDLL(NAME, mode=os.RTLD_NOLOAD | os.RTLD_NOW)
    except OSError:
        return None
    return library if hasattr(library, "ropeway_wait") else None


def _open(path, where):
    try:
        return ctypes.CDLL(path)
    except OSError as error:
        raise ImportError(
            f"acl cannot load {NAME} ({where}: {error}). Build the toolkit with 'make dist' and use the package in "
            "dist/python/site-packages: source dist/set_env.sh, or start the program with 'dist/bin/ropeway run'",
            name="acl",
            path=path,
        ) from None


def _choose():
    """Which implementation it is, its plain functions by module, and how to set what runs functions of the program."""
    wish = os.environ.get("ROPEWAY_PYTHON", "")
    if wish not in ("", "extension", "ctypes"):
        raise ImportError(f"ROPEWAY_PYTHON is {wish!r}; it may be 'extension', 'ctypes' or empty", name="acl")
    if wish != "ctypes":
        try:
            _fast = importlib.import_module("._fast", __package__)
        except ModuleNotFoundError as error:
            if wish:
                raise ImportError(f"ROPEWAY_PYTHON is 'extension', but there is none: {error}", name="acl") from None
        else:
            if _fast.TABLE != _forms.TABLE:
                raise ImportError("acl._fast was built from another version; run 'make dist' again", name="acl")
            _checking.start(library, PLACES, _fast)
            return "extension", {"acl": vars(_fast.acl), "acl.rt": vars(_fast.rt), "acl.prof": vars(_fast.prof)}, _fast.set_runner
    from . import _ctypes

    _checking.start(library, PLACES, None)
    return "ctypes", _ctypes.functions(library), None


library = _find()  # for ctypes; the interpreter lock is released during every call
implementation, _plain, set_runner = _choose()


def functions(module):
    """The functions of a module by name."""
    from . import _batch, _callbacks, _memory, _sharing, _special, _tasks

    by_hand = {}
    for written in (_batch, _callbacks, _memory, _sharing, _special, _tasks):
        by_hand.update(vars(written))
    found = {}
    for form in _forms.FORMS:
        if form.module != module:
            continue
        if form.kind == "plain":
            found[form.name] = _plain[module][form.name]
        elif form.id in by_hand:
            found[form.name] = by_hand[form.id]
    return found


def c_function(name, *argtypes, restype=ctypes.c_int):
    """A function of the C library. ctypes releases the GIL while it runs."""
    function = library[name]
    function.argtypes, function.restype = argtypes, restype
    return function


def or_0(address):
    """ctypes has None for a null pointer."""
    return address or 0


def decoded(raw):
    """A text of C."""
    return raw.decode(errors="replace")
