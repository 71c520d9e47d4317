"""Names for moments and ranges of a program, shown on the timeline of a recording (ropeway trace).

A stamp is given a text, and then reported: as a moment (mark), as a range inside others of its thread (push, pop), or as one that may end
elsewhere (range_start, range_stop). With nothing that records, create_stamp returns 0 and the others return -1.
"""

from . import _library

_functions = _library.functions("acl.prof")
__all__ = sorted(_functions)
globals().update(_functions)


def __getattr__(name):
    raise AttributeError(
        f"module 'acl.prof' has no attribute '{name}'. Of profiling only marks and ranges are built; "
        "ropeway trace records what a program does and where its time goes, and needs no change of it."
    )
