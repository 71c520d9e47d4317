"""Memory beyond malloc and free: virtual memory, pools, managed memory."""

import ctypes
from ctypes import POINTER, byref, c_int, c_int32, c_size_t, c_uint32, c_uint64, c_void_p

from . import _structs
from ._arguments import Bad, address, block_of, form, i32, list_of, u32, u64
from ._library import c_function, or_0
from ._sharing import pids

# Virtual memory

_PROP = POINTER(_structs.aclrtPhysicalMemProp)
_aclrtMallocPhysical = c_function("aclrtMallocPhysical", POINTER(c_void_p), c_size_t, _PROP, c_uint64)
_aclrtMemGetAllocationGranularity = c_function("aclrtMemGetAllocationGranularity", _PROP, c_int, POINTER(c_size_t))
_aclrtMemGetAllocationPropertiesFromHandle = c_function("aclrtMemGetAllocationPropertiesFromHandle", c_void_p, _PROP)
_aclrtMemSetAccess = c_function("aclrtMemSetAccess", c_void_p, c_size_t, POINTER(_structs.aclrtMemAccessDesc), c_size_t)
_aclrtMemGetAccess = c_function("aclrtMemGetAccess", c_void_p, POINTER(_structs.aclrtMemLocation), POINTER(c_uint64))


@form(u64, _structs.physical_mem_prop, u64)
def rt_malloc_physical(size, prop_dict, flags, /):
    """prop_dict is {"handleType", "allocationType", "memAttr", "location": {"id", "type"}, "reserve"}."""
    out = c_void_p()
    ret = _aclrtMallocPhysical(byref(out), size, byref(prop_dict), flags)
    return or_0(out.value), ret


@form(_structs.physical_mem_prop, i32)
def rt_mem_get_allocation_granularity(prop_dict, option, /):
    out = c_size_t()
    ret = _aclrtMemGetAllocationGranularity(byref(prop_dict), option, byref(out))
    return out.value, ret


@form(address)
def rt_mem_get_allocation_properties_from_handle(handle, /):
    """The dictionary is as malloc_physical takes it."""
    out = _structs.aclrtPhysicalMemProp()
    ret = _aclrtMemGetAllocationPropertiesFromHandle(handle, byref(out))
    return _structs.dictionary_of(out), ret


@form(address, u64, _structs.list_of_structs(_structs.aclrtMemAccessDesc))
def rt_mem_set_access(ptr, size, desc, /):
    """desc is [{"flags": 3, "location": {"id", "type"}}]."""
    return _aclrtMemSetAccess(ptr, size, desc, len(desc))


@form(address, _structs.struct_of(_structs.aclrtMemLocation))
def rt_mem_get_access(ptr, location, /):
    """location_dict is {"id", "type"}."""
    out = c_uint64()
    ret = _aclrtMemGetAccess(ptr, byref(location), byref(out))
    return out.value, ret


# Shareable handles: a number, or a block of bytes where share_type is ACL_MEM_SHARE_HANDLE_TYPE_FABRIC

_FABRIC = 2  # ACL_MEM_SHARE_HANDLE_TYPE_FABRIC
_FABRIC_HANDLE = 128  # bytes of an aclrtMemFabricHandle

_aclrtMemSetPidToShareableHandle = c_function("aclrtMemSetPidToShareableHandle", c_uint64, POINTER(c_int32), c_size_t)
_aclrtMemExportToShareableHandleV2 = c_function("aclrtMemExportToShareableHandleV2", c_void_p, c_uint64, c_int, c_void_p)
_aclrtMemSetPidToShareableHandleV2 = c_function(
    "aclrtMemSetPidToShareableHandleV2", c_void_p, c_int, POINTER(c_int32), c_size_t
)
_aclrtMemImportFromShareableHandleV2 = c_function(
    "aclrtMemImportFromShareableHandleV2", c_void_p, c_int, c_uint64, POINTER(c_void_p)
)

_block = block_of(_FABRIC_HANDLE)


def _shareable(value):
    """A buffer of the size of the larger kind of handle, with the handle in it."""
    number = not isinstance(value, (bytes, bytearray))
    return ctypes.create_string_buffer(u64(value).to_bytes(8, "little") if number else _block(value), _FABRIC_HANDLE)


@form(u64, pids)
def rt_mem_set_pid_to_shareable_handle(shareable, pids, /):
    return _aclrtMemSetPidToShareableHandle(shareable, pids, len(pids))


@form(address, u64, i32)
def rt_mem_export_to_shareable_handle_v2(handle, flags, share_type, /):
    """shareable_handle is an int; where share_type is 2 (ACL_MEM_SHARE_HANDLE_TYPE_FABRIC) it is bytes, 128 of them."""
    out = ctypes.create_string_buffer(_FABRIC_HANDLE)
    ret = _aclrtMemExportToShareableHandleV2(handle, flags, share_type, out)
    return out.raw if share_type == _FABRIC else int.from_bytes(out.raw[:8], "little"), ret


@form(_shareable, i32, pids)
def rt_mem_set_pid_to_shareable_handle_v2(shareable, share_type, pids, /):
    return _aclrtMemSetPidToShareableHandleV2(shareable, share_type, pids, len(pids))


@form(_shareable, i32, u64)
def rt_mem_import_from_shareable_handle_v2(shareable, share_type, flags, /):
    out = c_void_p()
    ret = _aclrtMemImportFromShareableHandleV2(shareable, share_type, flags, byref(out))
    return or_0(out.value), ret


# Pools. An attribute is a number of 32 or of 64 bits; C reads and writes the low ones.

_aclrtMemPoolCreate = c_function("aclrtMemPoolCreate", POINTER(c_void_p), POINTER(_structs.aclrtMemPoolProps))
_aclrtMemPoolSetAttr = c_function("aclrtMemPoolSetAttr", c_void_p, c_int, POINTER(c_uint64))
_aclrtMemPoolGetAttr = c_function("aclrtMemPoolGetAttr", c_void_p, c_int, POINTER(c_uint64))


@form(_structs.struct_of(_structs.aclrtMemPoolProps))
def rt_mem_pool_create(props, /):
    """pool_props_dict is {"allocType", "handleType", "location": {"id", "type"}, "maxSize"}; a maxSize of 0 is all of the
    device's memory.
    """
    out = c_void_p()
    ret = _aclrtMemPoolCreate(byref(out), byref(props))
    return or_0(out.value), ret


@form(address, i32, u64)
def rt_mem_pool_set_attr(mem_pool, attr, value, /):
    """value is the number itself."""
    return _aclrtMemPoolSetAttr(mem_pool, attr, byref(c_uint64(value)))


@form(address, i32)
def rt_mem_pool_get_attr(mem_pool, attr, /):
    out = c_uint64()
    ret = _aclrtMemPoolGetAttr(mem_pool, attr, byref(out))
    return out.value, ret


# Managed memory

_LOCATION = _structs.aclrtMemManagedLocation
_MOST = 65536  # most bytes of an attribute

_aclrtMemManagedAdvise = c_function("aclrtMemManagedAdvise", c_void_p, c_uint64, c_int, _LOCATION)
_aclrtMemManagedGetAttr = c_function("aclrtMemManagedGetAttr", c_int, c_void_p, c_size_t, c_void_p, c_size_t)
_aclrtMemManagedGetAttrs = c_function(
    "aclrtMemManagedGetAttrs", POINTER(c_int), c_size_t, c_void_p, c_size_t, POINTER(c_void_p), POINTER(c_size_t)
)
_aclrtMemManagedPrefetchAsync = c_function(
    "aclrtMemManagedPrefetchAsync", c_void_p, c_size_t, _LOCATION, c_uint32, c_void_p
)
_aclrtMemManagedPrefetchBatchAsync = c_function(
    "aclrtMemManagedPrefetchBatchAsync",
    *(POINTER(c_void_p), POINTER(c_size_t), c_size_t),
    *(POINTER(_LOCATION), POINTER(c_size_t), c_size_t),
    *(c_uint64, c_void_p),
)

_location = _structs.struct_of(_LOCATION)
_numbers = list_of(c_size_t, u64)


def _data_size(value):
    """The number of bytes of an attribute that C may write."""
    size = u64(value)
    if size > _MOST:
        raise Bad(ValueError, f"is {size}; an attribute has {_MOST} bytes at most")
    return size


def _cells(size):
    """Memory for an attribute: numbers of 32 bits."""
    return (c_int32 * max(-(-size // 4), 1))()


def _same_length(name, **lists):
    """C takes one length for both: it would read past the end of the shorter one."""
    if len({len(values) for values in lists.values()}) > 1:
        found = ", ".join(f"{key} {len(values)}" for key, values in lists.items())
        raise ValueError(f"{name}: the lists must have the same length; they have: {found}")


@form(address, u64, i32, _location)
def rt_mem_managed_advise(ptr, size, advise, location, /):
    """location_dict is {"type", "id"}."""
    return _aclrtMemManagedAdvise(ptr, size, advise, location)


@form(i32, address, u64, _data_size)
def rt_mem_managed_get_attr(attribute, ptr, size, data_size, /):
    """data is a list of integers of 4 bytes: one, or data_size / 4 of them for ACL_MEM_RANGE_ATTRIBUTE_ACCESSED_BY."""
    cells = _cells(data_size)
    ret = _aclrtMemManagedGetAttr(attribute, ptr, size, cells, data_size)
    return cells[: data_size // 4], ret


@form(list_of(c_int, i32), address, u64, list_of(c_size_t, _data_size))
def rt_mem_managed_get_attrs(attributes, ptr, size, data_sizes, /):
    """data has a list for each attribute, as mem_managed_get_attr gives it."""
    _same_length("acl.rt.mem_managed_get_attrs", attributes=attributes, data_sizes=data_sizes)
    cells = [_cells(n) for n in data_sizes]
    data = (c_void_p * len(cells))(*[ctypes.addressof(cell) for cell in cells])
    ret = _aclrtMemManagedGetAttrs(attributes, len(attributes), ptr, size, data, data_sizes)
    return [cell[: n // 4] for cell, n in zip(cells, data_sizes)], ret


@form(address, u64, _location, u32, address)
def rt_mem_managed_prefetch_async(ptr, size, location, flags, stream, /):
    """location_dict is {"type", "id"}."""
    return _aclrtMemManagedPrefetchAsync(ptr, size, location, flags, stream)


@form(list_of(c_void_p, address), _numbers, _structs.list_of_structs(_LOCATION), _numbers, u64, address)
def rt_mem_managed_prefetch_batch_async(ptrs, sizes, locations, indexes, flags, stream, /):
    """prefetch_locs is [{"type", "id"}]; each counts from the range on that prefetch_loc_idxs says."""
    name = "acl.rt.mem_managed_prefetch_batch_async"
    _same_length(name, ptrs=ptrs, sizes=sizes)
    _same_length(name, prefetch_locs=locations, prefetch_loc_idxs=indexes)
    return _aclrtMemManagedPrefetchBatchAsync(ptrs, sizes, len(ptrs), locations, indexes, len(locations), flags, stream)
