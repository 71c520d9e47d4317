"""Finds libascendcl.so, and collects the functions of a module.

The library is opened by its path before the extension is loaded, unless the process has one already: the extension then finds
it by its name, so there is one library in the process whatever LD_LIBRARY_PATH says.
"""

import ctypes
import importlib
import os
import sys

from . import _checking, _forms

NAME = "libascendcl.so"
_EXTENSION = "_fast.abi3.so"

_here = os.path.dirname(os.path.abspath(__file__))

# Possible locations of the library: inside the package (a wheel), in the toolkit that the package is part of,
# or in the toolkit beside Python's directory (Debian's packages: /usr/lib/python3/dist-packages/acl and
# /usr/lib/ropeway).
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
    """Our library, if the process has loaded it: the extension would find it by its name, whatever its path."""
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


def _load():
    """The extension: the functions generated in C from the table."""
    try:
        extension = importlib.import_module("._fast", __package__)
    except ImportError as error:
        raise ImportError(
            f"acl cannot load its extension, {_EXTENSION} ({error}). It needs CPython 3.9 or later on the processor that it was built "
            "for; this is {0.name} {1[0]}.{1[1]}. Install the wheel, or build the toolkit anew with 'make dist', which needs gcc and "
            "nothing of Python".format(sys.implementation, sys.version_info),
            name="acl",
        ) from None
    if extension.TABLE != _forms.TABLE:
        raise ImportError("acl._fast was built from another version; run 'make dist' again", name="acl")
    return extension


library = _find()  # for ctypes; the interpreter lock is released during every call
_fast = _load()
_checking.start(library, PLACES, _fast)
set_runner = _fast.set_runner
_plain = {"acl": vars(_fast.acl), "acl.rt": vars(_fast.rt), "acl.prof": vars(_fast.prof)}


def functions(module):
    """The functions of a module by name."""
    from . import _batch, _callbacks, _kernels, _memory, _models, _sharing, _special, _tasks

    by_hand = {}
    for written in (_batch, _callbacks, _kernels, _memory, _models, _sharing, _special, _tasks):
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
    """ctypes represents a null pointer by None."""
    return address or 0


def decoded(raw):
    """A C string as str."""
    return raw.decode(errors="replace")
