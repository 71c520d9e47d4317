"""AscendCL for Python: initialisation, versions, data buffers and the text of errors.

acl.rt is the runtime, acl.util turns bytes and arrays into addresses. Constants have their C names, like
acl.ACL_MEMCPY_HOST_TO_DEVICE. Errors of the library are returned, never raised; wrong arguments raise TypeError.
"""

from . import _library
from ._constants import *  # noqa: F403

globals().update(_library.functions("acl"))

from . import rt, util  # noqa: E402, F401
