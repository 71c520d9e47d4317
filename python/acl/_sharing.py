"""Objects that processes share by a key or a handle: memory, notifies, events."""

import ctypes
from ctypes import POINTER, byref, c_char_p, c_int, c_int32, c_size_t, c_uint64, c_void_p

from . import _structs
from ._arguments import address, block_of, form, i32, list_of, text, u64
from ._library import c_function, decoded, or_0

_KEY_ROOM = 65  # size of an exported key, terminator included
_EVENT_HANDLE = ctypes.sizeof(_structs.aclrtIpcEventHandle)

pids = list_of(c_int32, i32)
_notifies = list_of(c_void_p, address)


def _room(length):
    """A buffer for a key. The program may pass any length; a key is short."""
    return ctypes.create_string_buffer(max(_KEY_ROOM, min(length, 4096)))


# Memory

_aclrtIpcMemGetExportKey = c_function("aclrtIpcMemGetExportKey", c_void_p, c_size_t, c_char_p, c_size_t, c_uint64)
_aclrtIpcMemSetImportPid = c_function("aclrtIpcMemSetImportPid", c_char_p, POINTER(c_int32), c_size_t)
_aclrtIpcMemImportByKey = c_function("aclrtIpcMemImportByKey", POINTER(c_void_p), c_char_p, c_uint64)
_aclrtIpcMemClose = c_function("aclrtIpcMemClose", c_char_p)
_aclrtIpcMemSetAttr = c_function("aclrtIpcMemSetAttr", c_char_p, c_int, c_uint64)
_aclrtIpcMemImportPidInterServer = c_function(
    "aclrtIpcMemImportPidInterServer", c_char_p, POINTER(_structs.aclrtServerPid), c_size_t
)


@form(address, u64, u64, u64)
def rt_ipc_mem_get_export_key(ptr, size, length, flags, /):
    key = _room(length)
    ret = _aclrtIpcMemGetExportKey(ptr, size, key, length, flags)
    return decoded(key.value), ret


@form(text, pids)
def rt_ipc_mem_set_import_pid(key, pids, /):
    return _aclrtIpcMemSetImportPid(key, pids, len(pids))


@form(text, u64)
def rt_ipc_mem_import_by_key(key, flags, /):
    out = c_void_p()
    ret = _aclrtIpcMemImportByKey(byref(out), key, flags)
    return or_0(out.value), ret


@form(text)
def rt_ipc_mem_close(key, /):
    return _aclrtIpcMemClose(key)


@form(text, i32, u64)
def rt_ipc_mem_set_attr(key, kind, attr, /):
    return _aclrtIpcMemSetAttr(key, kind, attr)


@form(text, _structs.server_pids)
def rt_ipc_mem_import_pid_inter_server(key, servers, /):
    """server_pids is [{"sdid": n, "pid": [pids]}]."""
    return _aclrtIpcMemImportPidInterServer(key, servers, len(servers))


# Notifies

_aclrtNotifyBatchReset = c_function("aclrtNotifyBatchReset", POINTER(c_void_p), c_size_t)
_aclrtNotifyGetExportKey = c_function("aclrtNotifyGetExportKey", c_void_p, c_char_p, c_size_t, c_uint64)
_aclrtNotifySetImportPid = c_function("aclrtNotifySetImportPid", c_void_p, POINTER(c_int32), c_size_t)
_aclrtNotifyImportByKey = c_function("aclrtNotifyImportByKey", POINTER(c_void_p), c_char_p, c_uint64)
_aclrtNotifySetImportPidInterServer = c_function(
    "aclrtNotifySetImportPidInterServer", c_void_p, POINTER(_structs.aclrtServerPid), c_size_t
)


@form(_notifies)
def rt_notify_batch_reset(notifies, /):
    return _aclrtNotifyBatchReset(notifies, len(notifies))


@form(address, u64, u64)
def rt_notify_get_export_key(notify, length, flags, /):
    key = _room(length)
    ret = _aclrtNotifyGetExportKey(notify, key, length, flags)
    return decoded(key.value), ret


@form(address, pids)
def rt_notify_set_import_pid(notify, pids, /):
    return _aclrtNotifySetImportPid(notify, pids, len(pids))


@form(text, u64)
def rt_notify_import_by_key(key, flags, /):
    out = c_void_p()
    ret = _aclrtNotifyImportByKey(byref(out), key, flags)
    return or_0(out.value), ret


@form(address, _structs.server_pids)
def rt_notify_set_import_pid_inter_server(notify, servers, /):
    """server_pids is [{"sdid": n, "pid": [pids]}]."""
    return _aclrtNotifySetImportPidInterServer(notify, servers, len(servers))


# Events

_aclrtIpcGetEventHandle = c_function("aclrtIpcGetEventHandle", c_void_p, POINTER(_structs.aclrtIpcEventHandle))
_aclrtIpcOpenEventHandle = c_function("aclrtIpcOpenEventHandle", _structs.aclrtIpcEventHandle, POINTER(c_void_p))


@form(address)
def rt_ipc_get_event_handle(event, /):
    """ipc_handle is bytes, 64 of them, for another process."""
    out = _structs.aclrtIpcEventHandle()
    ret = _aclrtIpcGetEventHandle(event, byref(out))
    return bytes(out.reserved), ret


@form(block_of(_EVENT_HANDLE))
def rt_ipc_open_event_handle(ipc_handle, /):
    """ipc_handle is what ipc_get_event_handle gave in another process."""
    out = c_void_p()
    ret = _aclrtIpcOpenEventHandle(_structs.aclrtIpcEventHandle.from_buffer_copy(ipc_handle), byref(out))
    return or_0(out.value), ret
