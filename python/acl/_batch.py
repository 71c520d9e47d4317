"""Batch copies. pyACL has none; these follow its conventions.

Addresses and sizes are lists of int, or anything with a buffer of 64-bit integers (array.array, a NumPy array, memoryview),
which is faster: a list costs about 30 ns a number, a buffer next to nothing. None is NULL. attrs is a list of dictionaries
{"dstLoc": {"id", "type"}, "srcLoc": {"id", "type"}}, attrs_indexes says for each from which segment on it counts.
"""

from array import array
from ctypes import POINTER, byref, c_int, c_size_t, c_void_p

from ._arguments import Bad, address, form
from ._library import library
from ._structs import aclrtMemcpyBatchAttr, fill_list

_SIZE_MAX = (1 << 64) - 1
_NATIVE = frozenset("QqLlNnP")  # the buffer formats of 64-bit integers


def _numbers(values):
    """An array of 64-bit numbers."""
    if values is None or (isinstance(values, array) and values.typecode in "QL"):
        return values
    if isinstance(values, (list, tuple)):
        try:
            return array("Q", values)
        except (TypeError, OverflowError):
            return array("Q", [_element(i, value) for i, value in enumerate(values)])
    return _copy_of_buffer(values)


def _element(i, value):
    try:
        return address(value)
    except Bad as bad:
        raise Bad(bad.kind, f"[{i}] {bad.what}") from None


def _copy_of_buffer(values):
    try:
        view = memoryview(values)
    except TypeError:
        raise Bad(TypeError, f"must be a list of int or a buffer of 64-bit integers, not {type(values).__name__}") from None
    with view:
        if view.itemsize != 8 or view.format.lstrip("@=<") not in _NATIVE or view.ndim != 1:
            kind = type(values).__name__
            has = f"this {kind} has {view.ndim} of format {view.format!r}"
            raise Bad(TypeError, f"must have one dimension of 64-bit integers; {has}")
        numbers = array("Q")
        numbers.frombytes(view.tobytes())
        return numbers


def _attrs(values):
    """An array of structs, or an empty array of numbers."""
    return None if values is None else fill_list(aclrtMemcpyBatchAttr, values) or array("Q")


_nothing = array("Q", [0])  # address of empty lists: not NULL, which is a different mistake


def _address(values):
    if values is None:
        return None
    return (values or _nothing).buffer_info()[0]


def _lengths_agree(name, **lists):
    """The length of the first list; the others, if given, must have the same length: the C call would read
    past their ends."""
    lengths = {key: len(values) for key, values in lists.items() if values is not None}
    if len(set(lengths.values())) > 1:
        found = ", ".join(f"{key} {length}" for key, length in lengths.items())
        raise ValueError(f"{name}: the lists must have the same length; they have: {found}")
    return next(iter(lengths.values()), 0)


def _arguments(name, dsts, dest_maxs, srcs, sizes, attrs, attrs_indexes):
    """The first arguments of the C functions."""
    count = _lengths_agree(name, dsts=dsts, dest_maxs=dest_maxs, srcs=srcs, sizes=sizes)
    attr_count = _lengths_agree(name, attrs=attrs, attrs_indexes=attrs_indexes)
    return (
        _address(dsts), _address(dest_maxs), _address(srcs), _address(sizes), count,
        _address(attrs) if isinstance(attrs, array) else attrs, _address(attrs_indexes), attr_count,
    )  # fmt: skip


_LISTS = (_numbers, _numbers, _numbers, _numbers, _attrs, _numbers)
_C_LISTS = [c_void_p] * 4 + [c_size_t, c_void_p, c_void_p, c_size_t]


def _c(name, *more):
    function = library[name]
    function.argtypes, function.restype = _C_LISTS + list(more), c_int
    return function


_aclrtMemcpyBatch = _c("aclrtMemcpyBatch", POINTER(c_size_t))
_aclrtMemcpyBatchAsync = _c("aclrtMemcpyBatchAsync", POINTER(c_size_t), c_void_p)
_aclrtMemcpyBatchV2 = _c("aclrtMemcpyBatchV2")
_aclrtMemcpyBatchAsyncV2 = _c("aclrtMemcpyBatchAsyncV2", c_void_p)


@form(*_LISTS)
def rt_memcpy_batch(dsts, dest_maxs, srcs, sizes, attrs, attrs_indexes, /):
    """fail_index is the segment that was refused, 2**64 - 1 if none is to blame. Lists may be buffers of 64-bit integers."""
    lists = _arguments("acl.rt.memcpy_batch", dsts, dest_maxs, srcs, sizes, attrs, attrs_indexes)
    fail_index = c_size_t(_SIZE_MAX)
    ret = _aclrtMemcpyBatch(*lists, byref(fail_index))
    return fail_index.value, ret


@form(*_LISTS, address)
def rt_memcpy_batch_async(dsts, dest_maxs, srcs, sizes, attrs, attrs_indexes, stream, /):
    """As memcpy_batch. The lists may be changed when the call returns, the memory they name when the copies are done."""
    lists = _arguments("acl.rt.memcpy_batch_async", dsts, dest_maxs, srcs, sizes, attrs, attrs_indexes)
    fail_index = c_size_t(_SIZE_MAX)
    ret = _aclrtMemcpyBatchAsync(*lists, byref(fail_index), stream)
    return fail_index.value, ret


@form(*_LISTS)
def rt_memcpy_batch_v2(dsts, dest_maxs, srcs, sizes, attrs, attrs_indexes, /):
    return _aclrtMemcpyBatchV2(*_arguments("acl.rt.memcpy_batch_v2", dsts, dest_maxs, srcs, sizes, attrs, attrs_indexes))


@form(*_LISTS, address)
def rt_memcpy_batch_async_v2(dsts, dest_maxs, srcs, sizes, attrs, attrs_indexes, stream, /):
    lists = _arguments("acl.rt.memcpy_batch_async_v2", dsts, dest_maxs, srcs, sizes, attrs, attrs_indexes)
    return _aclrtMemcpyBatchAsyncV2(*lists, stream)
