"""The forms with dictionaries, lists, strings and functions, over ctypes. All others are generated.

This module has those of no other: batch copies, functions of the program, virtual memory and what processes share have
modules of their own.

A form is called after its module and its name: rt_malloc_with_cfg is acl.rt.malloc_with_cfg, acl_init is acl.init. Outputs
of a call that failed are what the C call left, mostly zeros.
"""

import ctypes
import sys
from ctypes import POINTER, byref, c_char_p, c_int, c_int32, c_size_t, c_uint32, c_uint64, c_void_p

from . import _structs
from ._arguments import address, form, i32, text, u32, u64
from ._library import c_function, decoded, or_0

_UCE_MOST = 20  # most ranges that aclrtGetMemUceInfo returns
_VERSION_ROOM = 128

# Memory

_aclrtMallocWithCfg = c_function("aclrtMallocWithCfg", POINTER(c_void_p), c_size_t, c_int, POINTER(_structs.aclrtMallocConfig))
_aclrtMallocForTaskScheduler = c_function(
    "aclrtMallocForTaskScheduler", POINTER(c_void_p), c_size_t, c_int, POINTER(_structs.aclrtMallocConfig)
)
_aclrtMallocHostWithCfg = c_function("aclrtMallocHostWithCfg", POINTER(c_void_p), c_uint64, POINTER(_structs.aclrtMallocConfig))
_aclrtPointerGetAttributes = c_function("aclrtPointerGetAttributes", c_void_p, POINTER(_structs.aclrtPtrAttributes))


@form(u64, i32, _structs.malloc_config)
def rt_malloc_with_cfg(size, policy, cfg_dict, /):
    """cfg_dict is {"attrs": [{"attr": n, "value": {"moduleId" or "deviceId" or "rsv": v}}], "numAttrs": n}; {} is none."""
    out = c_void_p()
    ret = _aclrtMallocWithCfg(byref(out), size, policy, cfg_dict)
    return or_0(out.value), ret


@form(u64, i32, _structs.malloc_config)
def rt_malloc_for_task_scheduler(size, policy, cfg_dict, /):
    out = c_void_p()
    ret = _aclrtMallocForTaskScheduler(byref(out), size, policy, cfg_dict)
    return or_0(out.value), ret


@form(u64, _structs.malloc_config)
def rt_malloc_host_with_cfg(size, cfg_dict, /):
    """cfg_dict as in malloc_with_cfg; the value may be a "vaFlag" too."""
    out = c_void_p()
    ret = _aclrtMallocHostWithCfg(byref(out), size, cfg_dict)
    return or_0(out.value), ret


@form(address)
def rt_pointer_get_attributes(ptr, /):
    """type is 0 for pinned or registered host memory, 1 for a device, 2 for other host memory, 3 for managed memory."""
    out = _structs.aclrtPtrAttributes()
    ret = _aclrtPointerGetAttributes(ptr, byref(out))
    return {"location": _structs.location(out.location), "page_size": out.pageSize, "rsv": list(out.rsv)}, ret


# Devices

_aclrtGetDeviceUtilizationRate = c_function("aclrtGetDeviceUtilizationRate", c_int32, POINTER(_structs.aclrtUtilizationInfo))
_aclrtDeviceGetUuid = c_function("aclrtDeviceGetUuid", c_int32, POINTER(_structs.aclrtUuid))
_aclrtGetMemUceInfo = c_function("aclrtGetMemUceInfo", c_int32, c_void_p, c_size_t, POINTER(c_size_t))
_aclrtMemUceRepair = c_function("aclrtMemUceRepair", c_int32, c_void_p, c_size_t)


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
    return [{"addr": or_0(r.addr), "len": r.len, "reserved": list(r.reserved)} for r in ranges], ret


@form(i32, _uce_infos)
def rt_mem_uce_repair(device_id, ranges, /):
    return _aclrtMemUceRepair(device_id, ranges, len(ranges))


# Groups of cores

_aclrtGetGroupInfoDetail = c_function(
    "aclrtGetGroupInfoDetail", c_void_p, c_int32, c_int, c_void_p, c_size_t, POINTER(c_size_t)
)


@form(address, i32, i32)
def rt_get_group_info_detail(group_info, group_id, attr, /):
    """group_id is the index of a group, from 0. As in pyACL, a call that fails raises RuntimeError and returns no code."""
    out, size = c_int32(), c_size_t()
    ret = _aclrtGetGroupInfoDetail(group_info, group_id, attr, byref(out), ctypes.sizeof(out), byref(size))
    if ret:
        raise RuntimeError(f"acl.rt.get_group_info_detail: aclrtGetGroupInfoDetail returned {ret}")
    return [out.value], ret


# Streams

_aclrtSetStreamAttribute = c_function("aclrtSetStreamAttribute", c_void_p, c_int, POINTER(_structs.aclrtStreamAttrValue))
_aclrtGetStreamAttribute = c_function("aclrtGetStreamAttribute", c_void_p, c_int, POINTER(_structs.aclrtStreamAttrValue))

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


_aclmdlRICaptureThreadExchangeMode = c_function("aclmdlRICaptureThreadExchangeMode", POINTER(c_int))


@form(i32)
def rt_mdl_ri_capture_thread_exchange_mode(mode, /):
    """Sets the mode of the calling thread; the result is the earlier one."""
    value = c_int(mode)
    ret = _aclmdlRICaptureThreadExchangeMode(byref(value))
    return value.value, ret


# The top module

_aclInit = c_function("aclInit", c_char_p)
_aclGetRecentErrMsg = c_function("aclGetRecentErrMsg", restype=c_char_p)
_aclsysGetCANNVersion = c_function("aclsysGetCANNVersion", c_int, POINTER(_structs.aclCANNPackageVersion))
_aclsysGetVersionStr = c_function("aclsysGetVersionStr", c_char_p, c_char_p)
_aclrtGetSocName = c_function("aclrtGetSocName", restype=c_char_p)
_aclGetCannAttributeList = c_function("aclGetCannAttributeList", POINTER(POINTER(c_int)), POINTER(c_size_t))
_aclAppLog = c_function("aclAppLog", c_int, c_char_p, c_char_p, c_uint32, c_char_p, c_char_p, restype=None)


@form(text, optional=1)
def acl_init(config_path=None, /):
    return _aclInit(config_path)


@form()
def acl_get_recent_err_msg():
    message = _aclGetRecentErrMsg()
    return None if message is None else decoded(message)


@form(i32)
def acl_get_cann_version(name, /):
    """The dictionary has version, major_version, minor_version, release_version and patch_version, and the same texts under
    the names of the C struct (majorVersion …).
    """
    out = _structs.aclCANNPackageVersion()
    ret = _aclsysGetCANNVersion(name, byref(out))
    texts = {"version": decoded(out.version)}
    for part in ("major", "minor", "release", "patch"):
        texts[part + "_version"] = texts[part + "Version"] = decoded(getattr(out, part + "Version"))
    return texts, ret


@form(text)
def acl_get_version_str(pkg_name, /):
    version = ctypes.create_string_buffer(_VERSION_ROOM)
    ret = _aclsysGetVersionStr(pkg_name, version)
    return decoded(version.value), ret


@form()
def acl_get_soc_name():
    name = _aclrtGetSocName()
    return None if name is None else decoded(name)


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


# Marks

_aclprofSetStampTraceMessage = c_function("aclprofSetStampTraceMessage", c_void_p, c_char_p, c_uint32)
_aclprofMarkEx = c_function("aclprofMarkEx", c_char_p, c_size_t, c_void_p)


@form(address, text, u32)
def prof_set_stamp_trace_message(stamp, msg, msg_len, /):
    return _aclprofSetStampTraceMessage(stamp, msg, msg_len)


@form(text, address)
def prof_mark_ex(msg, stream, /):
    return _aclprofMarkEx(msg, len(msg or b""), stream)
