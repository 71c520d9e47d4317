"""AscendCL for Python: initialisation, versions, data buffers and the text of errors.

acl.rt is the runtime, acl.prof names moments and ranges for a recording, acl.util turns bytes and arrays into addresses. Constants have their C names, like
acl.ACL_MEMCPY_HOST_TO_DEVICE. Errors of the library are returned, never raised; wrong arguments raise TypeError.
"""

import sys as _sys

from . import _library, _outside
from ._constants import *  # noqa: F403
from ._version import __version__  # noqa: F401

globals().update(_library.functions("acl"))

from . import prof, rt, util  # noqa: E402, F401


def __getattr__(name):
    raise AttributeError(_outside.MODULES.get(name) or f"module 'acl' has no attribute '{name}'")


class _Finder:
    """The last that is asked for a module: import acl.mdl and from acl import mdl fail with the text of acl.mdl."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        package, _, module = name.rpartition(".")
        if package == __name__ and module in _outside.MODULES:
            raise ImportError(_outside.MODULES[module], name=name)


_sys.meta_path.append(_Finder)
