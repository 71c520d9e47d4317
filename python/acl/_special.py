"""The forms with dictionaries, lists, strings and functions, over ctypes. All others are generated.

A form is called after its module and its name: rt_malloc_with_cfg is acl.rt.malloc_with_cfg, acl_init is acl.init. Outputs
of a call that failed are what the C call left, mostly zeros.
"""

import ctypes
import sys
from ctypes import POINTER, byref, c_char_p, c_int, c_int32, c_size_t, c_uint32, c_uint64, c_void_p

from . import _structs
from ._arguments import Bad, address, form, i32, text, u64
from ._batch import rt_memcpy_batch, rt_memcpy_batch_async, rt_memcpy_batch_async_v2, rt_memcpy_batch_v2  # noqa: F401
from ._callbacks import (  # noqa: F401
    rt_allocator_set_alloc_advise_func_to_desc,
    rt_allocator_set_alloc_func_to_desc,
    rt_allocator_set_free_func_to_desc,
    rt_allocator_set_get_addr_from_block_func_to_desc,
    rt_launch_callback,
    rt_launch_host_func,
    rt_set_exception_info_callback,
)
from ._library import library

_POINTER_OUT = POINTER(c_void_p)
_KEY_ROOM = 65  # what an exported key needs, terminator included
_UCE_MOST = 20  # how many ranges aclrtGetMemUceInfo can tell of
_VERSION_ROOM = 128


def _c(name, *argtypes, restype=c_int):
    """A function of the C library. ctypes releases the GIL while it runs."""
    function = library[name]
    function.argtypes, function.restype = argtypes, restype
    return function


def _list_of(kind, element):
    """An array of integers from a list."""

    def convert(values):
        if not isinstance(values, (list, tuple)):
            raise Bad(TypeError, f"must be list, not {type(values).__name__}")
        numbers = []
        for i, value in enumerate(values):
            try:
                numbers.append(element(value))
            except Bad as bad:
                raise Bad(bad.kind, f"[{i}] {bad.what}") from None
        return (kind * len(numbers))(*numbers)

    return convert


_pids = _list_of(c_int32, i32)
_notifies = _list_of(c_void_p, address)


def _decoded(raw):
    return raw.decode(errors="replace")


# Memory

_aclrtMallocWithCfg = _c("aclrtMallocWithCfg", _POINTER_OUT, c_size_t, c_int, POINTER(_structs.aclrtMallocConfig))
_aclrtMallocForTaskScheduler = _c(
    "aclrtMallocForTaskScheduler", _POINTER_OUT, c_size_t, c_int, POINTER(_structs.aclrtMallocConfig)
)
_aclrtMallocHostWithCfg = _c("aclrtMallocHostWithCfg", _POINTER_OUT, c_uint64, POINTER(_structs.aclrtMallocConfig))
_aclrtPointerGetAttributes = _c("aclrtPointerGetAttributes", c_void_p, POINTER(_structs.aclrtPtrAttributes))
_aclrtMallocPhysical = _c("aclrtMallocPhysical", _POINTER_OUT, c_size_t, POINTER(_structs.aclrtPhysicalMemProp), c_uint64)
_aclrtMemGetAllocationGranularity = _c(
    "aclrtMemGetAllocationGranularity", POINTER(_structs.aclrtPhysicalMemProp), c_int, POINTER(c_size_t)
)
_aclrtMemSetPidToShareableHandle = _c("aclrtMemSetPidToShareableHandle", c_uint64, POINTER(c_int32), c_size_t)


def _or_0(address):
    """ctypes has None for a null pointer."""
    return address or 0


@form(u64, i32, _structs.malloc_config)
def rt_malloc_with_cfg(size, policy, cfg_dict, /):
    """cfg_dict is {"attrs": [{"attr": n, "value": {"moduleId" or "deviceId" or "rsv": v}}], "numAttrs": n}; {} is none."""
    out = c_void_p()
    ret = _aclrtMallocWithCfg(byref(out), size, policy, cfg_dict)
    return _or_0(out.value), ret


@form(u64, i32, _structs.malloc_config)
def rt_malloc_for_task_scheduler(size, policy, cfg_dict, /):
    out = c_void_p()
    ret = _aclrtMallocForTaskScheduler(byref(out), size, policy, cfg_dict)
    return _or_0(out.value), ret


@form(u64, _structs.malloc_config)
def rt_malloc_host_with_cfg(size, cfg_dict, /):
    """cfg_dict as in malloc_with_cfg; the value may be a "vaFlag" too."""
    out = c_void_p()
    ret = _aclrtMallocHostWithCfg(byref(out), size, cfg_dict)
    return _or_0(out.value), ret


@form(address)
def rt_pointer_get_attributes(ptr, /):
    """type is 0 for pinned or registered host memory, 1 for a device, 2 for other host memory, 3 for managed memory."""
    out = _structs.aclrtPtrAttributes()
    ret = _aclrtPointerGetAttributes(ptr, byref(out))
    return {"location": _structs.location(out.location), "page_size": out.pageSize, "rsv": list(out.rsv)}, ret


@form(u64, _structs.physical_mem_prop, u64)
def rt_malloc_physical(size, prop_dict, flags, /):
    """prop_dict is {"handleType", "allocationType", "memAttr", "location": {"id", "type"}, "reserve"}."""
    out = c_void_p()
    ret = _aclrtMallocPhysical(byref(out), size, byref(prop_dict), flags)
    return _or_0(out.value), ret


@form(_structs.physical_mem_prop, i32)
def rt_mem_get_allocation_granularity(prop_dict, option, /):
    out = c_size_t()
    ret = _aclrtMemGetAllocationGranularity(byref(prop_dict), option, byref(out))
    return out.value, ret


@form(u64, _pids)
def rt_mem_set_pid_to_shareable_handle(shareable, pids, /):
    return _aclrtMemSetPidToShareableHandle(shareable, pids, len(pids))


# Keys: memory and notifies shared between processes

_aclrtIpcMemGetExportKey = _c("aclrtIpcMemGetExportKey", c_void_p, c_size_t, c_char_p, c_size_t, c_uint64)
_aclrtIpcMemSetImportPid = _c("aclrtIpcMemSetImportPid", c_char_p, POINTER(c_int32), c_size_t)
_aclrtIpcMemImportByKey = _c("aclrtIpcMemImportByKey", _POINTER_OUT, c_char_p, c_uint64)
_aclrtIpcMemClose = _c("aclrtIpcMemClose", c_char_p)
_aclrtNotifyBatchReset = _c("aclrtNotifyBatchReset", POINTER(c_void_p), c_size_t)
_aclrtNotifyGetExportKey = _c("aclrtNotifyGetExportKey", c_void_p, c_char_p, c_size_t, c_uint64)
_aclrtNotifySetImportPid = _c("aclrtNotifySetImportPid", c_void_p, POINTER(c_int32), c_size_t)
_aclrtNotifyImportByKey = _c("aclrtNotifyImportByKey", _POINTER_OUT, c_char_p, c_uint64)


def _room(length):
    """Memory for a key. The length that the program gives may be any number; a key is short."""
    return ctypes.create_string_buffer(max(_KEY_ROOM, min(length, 4096)))


@form(address, u64, u64, u64)
def rt_ipc_mem_get_export_key(ptr, size, length, flags, /):
    key = _room(length)
    ret = _aclrtIpcMemGetExportKey(ptr, size, key, length, flags)
    return _decoded(key.value), ret


@form(text, _pids)
def rt_ipc_mem_set_import_pid(key, pids, /):
    return _aclrtIpcMemSetImportPid(key, pids, len(pids))


@form(text, u64)
def rt_ipc_mem_import_by_key(key, flags, /):
    out = c_void_p()
    ret = _aclrtIpcMemImportByKey(byref(out), key, flags)
    return _or_0(out.value), ret


@form(text)
def rt_ipc_mem_close(key, /):
    return _aclrtIpcMemClose(key)


@form(_notifies)
def rt_notify_batch_reset(notifies, /):
    return _aclrtNotifyBatchReset(notifies, len(notifies))


@form(address, u64, u64)
def rt_notify_get_export_key(notify, length, flags, /):
    key = _room(length)
    ret = _aclrtNotifyGetExportKey(notify, key, length, flags)
    return _decoded(key.value), ret


@form(address, _pids)
def rt_notify_set_import_pid(notify, pids, /):
    return _aclrtNotifySetImportPid(notify, pids, len(pids))


@form(text, u64)
def rt_notify_import_by_key(key, flags, /):
    out = c_void_p()
    ret = _aclrtNotifyImportByKey(byref(out), key, flags)
    return _or_0(out.value), ret


# Devices

_aclrtGetDeviceUtilizationRate = _c("aclrtGetDeviceUtilizationRate", c_int32, POINTER(_structs.aclrtUtilizationInfo))
_aclrtDeviceGetUuid = _c("aclrtDeviceGetUuid", c_int32, POINTER(_structs.aclrtUuid))
_aclrtGetMemUceInfo = _c("aclrtGetMemUceInfo", c_int32, c_void_p, c_size_t, POINTER(c_size_t))
_aclrtMemUceRepair = _c("aclrtMemUceRepair", c_int32, c_void_p, c_size_t)


@form(i32)
def rt_get_device_utilization_rate(device_id, /):
    """The dictionary has cube_utilization, vector_utilization, aicpu_utilization and memory_utilization."""
    out = _structs.aclrtUtilizationInfo()
    ret = _aclrtGetDeviceUtilizationRate(device_id, byref(out))
    rates = {
        "cube_utilization": out.cubeUtilization,
        "vector_utilization": out.vectorUtilization,
        "aicpu_utilization": out.aicpuUtilization,
        "memory_utilization": out.memoryUtilization,
    }
    return rates, ret


@form(i32)
def rt_device_get_uuid(device_id, /):
    """The dictionary is {"bytes": [16 numbers]}."""
    out = _structs.aclrtUuid()
    ret = _aclrtDeviceGetUuid(device_id, byref(out))
    return {"bytes": list(out.bytes)}, ret


def _uce_infos(values):
    return _structs.fill_list(_structs.aclrtMemUceInfo, values) or (_structs.aclrtMemUceInfo * 0)()


@form(i32)
def rt_get_mem_uce_info(device_id, /):
    """The list has a dictionary {"addr", "len", "reserved"} for each range."""
    out = (_structs.aclrtMemUceInfo * _UCE_MOST)()
    found = c_size_t()
    ret = _aclrtGetMemUceInfo(device_id, out, _UCE_MOST, byref(found))
    ranges = out[: min(found.value, _UCE_MOST)]
    return [{"addr": _or_0(r.addr), "len": r.len, "reserved": list(r.reserved)} for r in ranges], ret


@form(i32, _uce_infos)
def rt_mem_uce_repair(device_id, ranges, /):
    return _aclrtMemUceRepair(device_id, ranges, len(ranges))


# Streams

_aclrtSetStreamAttribute = _c("aclrtSetStreamAttribute", c_void_p, c_int, POINTER(_structs.aclrtStreamAttrValue))
_aclrtGetStreamAttribute = _c("aclrtGetStreamAttribute", c_void_p, c_int, POINTER(_structs.aclrtStreamAttrValue))

# The member of aclrtStreamAttrValue that an attribute uses, from attribute 1 on.
_MEMBERS = ("failureMode", "overflowSwitch", "userCustomTag", "cacheOpInfoSwitch", "streamPriority")


@form(address, i32, _structs.stream_attr_value)
def rt_set_stream_attribute(stream, attr, value, /):
    """value_dict is {"failureMode": n} (attr 1), {"overflowSwitch": n} (2), {"userCustomTag": n} (3),
    {"cacheOpInfoSwitch": n} (4), {"streamPriority": n} (5).
    """
    return _aclrtSetStreamAttribute(stream, attr, byref(value))


@form(address, i32)
def rt_get_stream_attribute(stream, attr, /):
    """value_dict is as set_stream_attribute takes it; {"reserved": [4 numbers]} for an attribute that is not known."""
    out = _structs.aclrtStreamAttrValue()
    ret = _aclrtGetStreamAttribute(stream, attr, byref(out))
    if not 1 <= attr <= len(_MEMBERS):
        return {"reserved": list(out.reserve)}, ret
    member = _MEMBERS[attr - 1]
    return {member: getattr(out, member)}, ret


# The top module

_aclInit = _c("aclInit", c_char_p)
_aclGetRecentErrMsg = _c("aclGetRecentErrMsg", restype=c_char_p)
_aclsysGetCANNVersion = _c("aclsysGetCANNVersion", c_int, POINTER(_structs.aclCANNPackageVersion))
_aclsysGetVersionStr = _c("aclsysGetVersionStr", c_char_p, c_char_p)
_aclrtGetSocName = _c("aclrtGetSocName", restype=c_char_p)
_aclGetCannAttributeList = _c("aclGetCannAttributeList", POINTER(POINTER(c_int)), POINTER(c_size_t))
_aclAppLog = _c("aclAppLog", c_int, c_char_p, c_char_p, c_uint32, c_char_p, c_char_p, restype=None)


@form(text, optional=1)
def acl_init(config_path=None, /):
    return _aclInit(config_path)


@form()
def acl_get_recent_err_msg():
    message = _aclGetRecentErrMsg()
    return None if message is None else _decoded(message)


@form(i32)
def acl_get_cann_version(name, /):
    """The dictionary has version, major_version, minor_version, release_version and patch_version, and the same texts under
    the names of the C struct (majorVersion …).
    """
    out = _structs.aclCANNPackageVersion()
    ret = _aclsysGetCANNVersion(name, byref(out))
    texts = {"version": _decoded(out.version)}
    for part in ("major", "minor", "release", "patch"):
        texts[part + "_version"] = texts[part + "Version"] = _decoded(getattr(out, part + "Version"))
    return texts, ret


@form(text)
def acl_get_version_str(pkg_name, /):
    version = ctypes.create_string_buffer(_VERSION_ROOM)
    ret = _aclsysGetVersionStr(pkg_name, version)
    return _decoded(version.value), ret


@form()
def acl_get_soc_name():
    name = _aclrtGetSocName()
    return None if name is None else _decoded(name)


@form()
def acl_get_cann_attribute_list():
    attributes, num = POINTER(c_int)(), c_size_t()
    ret = _aclGetCannAttributeList(byref(attributes), byref(num))
    return attributes[: num.value] if attributes else [], num.value, ret


@form(i32, text)
def acl_app_log(level, msg, /):
    """The line is written with the function, the file and the line it was called from."""
    caller = sys._getframe(2)
    code = caller.f_code
    _aclAppLog(level, code.co_name.encode(), code.co_filename.encode(errors="replace"), caller.f_lineno, b"%s", msg)
