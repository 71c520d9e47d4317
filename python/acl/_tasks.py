"""Tasks that a dictionary describes: count notifies, random numbers, changes of tasks."""

from ctypes import POINTER, byref, c_uint32, c_void_p

from . import _structs
from ._arguments import address, form, u32
from ._library import c_function

_aclrtCntNotifyRecord = c_function("aclrtCntNotifyRecord", c_void_p, c_void_p, POINTER(_structs.aclrtCntNotifyRecordInfo))
_aclrtCntNotifyWaitWithTimeout = c_function(
    "aclrtCntNotifyWaitWithTimeout", c_void_p, c_void_p, POINTER(_structs.aclrtCntNotifyWaitInfo)
)
_aclrtRandomNumAsync = c_function("aclrtRandomNumAsync", POINTER(_structs.aclrtRandomNumTaskInfo), c_void_p, c_void_p)
_aclrtTaskUpdateAsync = c_function(
    "aclrtTaskUpdateAsync", c_void_p, c_uint32, POINTER(_structs.aclrtTaskUpdateInfo), c_void_p
)


@form(address, address, _structs.struct_of(_structs.aclrtCntNotifyRecordInfo))
def rt_cnt_notify_record(cnt_notify, stream, info, /):
    """info_dict is {"mode", "value"}."""
    return _aclrtCntNotifyRecord(cnt_notify, stream, byref(info))


@form(address, address, _structs.struct_of(_structs.aclrtCntNotifyWaitInfo))
def rt_cnt_notify_wait_with_timeout(cnt_notify, stream, info, /):
    """info_dict is {"mode", "value", "timeout", "isClear"}."""
    return _aclrtCntNotifyWaitWithTimeout(cnt_notify, stream, byref(info))


@form(_structs.struct_of(_structs.aclrtRandomNumTaskInfo), address, address)
def rt_random_num_async(task_info, stream, reserve, /):
    """task_info_dict is {"dataType", "randomNumFuncParaInfo": {"funcType", "paramInfo": {"uniformDisInfo": {"min", "max"}}},
    "randomParaAddr", "randomResultAddr", "randomCounterAddr", "randomSeed", "randomNum"}. Each parameter is {"isAddr",
    "valueOrAddr", "size"}; valueOrAddr is an integer with the bits of the value, or a list of its bytes.
    """
    return _aclrtRandomNumAsync(byref(task_info), stream, reserve)


@form(address, u32, _structs.struct_of(_structs.aclrtTaskUpdateInfo), address)
def rt_task_update_async(task_stream, task_id, info, exec_stream, /):
    """info_dict is {"id": 1, "val": {"randomTaskAttr": {"srcAddr": p, "size": 104}}} or {"id": 2, "val": {"aicAivTaskAttr":
    {"binHandle": b, "funcEntryAddr": p, "blockDimAddr": q}}}; p and q are addresses in device memory.
    """
    return _aclrtTaskUpdateAsync(task_stream, task_id, byref(info), exec_stream)
