"""The plain functions of both implementations, the extension and ctypes, in one process."""

import importlib
import os

from acl import _ctypes, _library


def implementations():
    """(name, functions by module and name) of each implementation."""
    yield "ctypes", _ctypes.functions(_library.library)
    try:
        _fast = importlib.import_module("acl._fast")
    except ModuleNotFoundError:
        if os.environ.get("CI"):
            raise
        return
    yield "extension", {"acl": vars(_fast.acl), "acl.rt": vars(_fast.rt), "acl.prof": vars(_fast.prof)}
