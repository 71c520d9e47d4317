"""The runtime: devices, contexts, streams, events, memory and copies.

Arguments are positional. Addresses, handles, sizes and enumerators are integers, NULL is 0. A function returns its results
and then the error code, in a tuple, or the code alone: 0 is success. Errors of the library are returned, never raised.
"""

from . import _library

_functions = _library.functions("acl.rt")
__all__ = sorted(_functions)
globals().update(_functions)
