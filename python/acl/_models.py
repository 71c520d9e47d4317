"""Models: names, files, the streams and tasks that they have, and functions for their end."""

import atexit
import os
import threading
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_uint32, c_void_p, create_string_buffer

from . import _checking
from ._arguments import address, callable_, form, i32, list_of, text, u32
from ._callbacks import _DATA_FUNCTION, _INTERNAL_ERROR, _anything, _call
from ._library import c_function, or_0
from ._structs import (
    aclmdlRICondTaskParams, aclmdlRITaskParams, aclrtLaunchKernelAttr, aclrtLaunchKernelAttrValue, chosen_member,
    dictionary_of, task_params,
)  # fmt: skip

_aclmdlRISetName = c_function("aclmdlRISetName", c_void_p, c_char_p)
_aclmdlRIGetName = c_function("aclmdlRIGetName", c_void_p, c_uint32, c_char_p)
_aclmdlRIDebugJsonPrint = c_function("aclmdlRIDebugJsonPrint", c_void_p, c_char_p, c_uint32)
_aclmdlRIGetStreams = c_function("aclmdlRIGetStreams", c_void_p, POINTER(c_void_p), POINTER(c_uint32))
_aclmdlRIGetTasksByStream = c_function("aclmdlRIGetTasksByStream", c_void_p, POINTER(c_void_p), POINTER(c_uint32))
_aclmdlRICondHandleGetCondPtr = c_function("aclmdlRICondHandleGetCondPtr", c_void_p, POINTER(c_void_p))
_aclrtCreateLabelList = c_function("aclrtCreateLabelList", POINTER(c_void_p), c_size_t, POINTER(c_void_p))
_aclmdlRIAddCondTask = c_function("aclmdlRIAddCondTask", aclmdlRICondTaskParams, c_void_p, c_uint32)

_MOST_MODELS = 1 << 16  # most models of a condition task
_NAME = 4096  # bytes for a name; the documents ask for less than 512


@form(address, text)
def rt_mdl_ri_set_name(model_ri, name, /):
    return _aclmdlRISetName(model_ri, name)


@form(address)
def rt_mdl_ri_get_name(model_ri, /):
    out = create_string_buffer(_NAME)
    ret = _aclmdlRIGetName(model_ri, _NAME, out)
    return out.value.decode(errors="replace"), ret


@form(address, text, u32)
def rt_mdl_ri_debug_json_print(model_ri, path, flags, /):
    return _aclmdlRIDebugJsonPrint(model_ri, path, flags)


def _list(function, handle):
    """The handles that a function lists: it is called for their number, and then for the handles."""
    count = c_uint32()
    ret = function(handle, None, byref(count))
    if ret or not count.value:
        return [], ret
    out = (c_void_p * count.value)()
    ret = function(handle, out, byref(count))
    return [or_0(h) for h in out[: count.value]] if not ret else [], ret


@form(address)
def rt_mdl_ri_get_streams(model_ri, /):
    return _list(_aclmdlRIGetStreams, model_ri)


@form(address)
def rt_mdl_ri_get_tasks_by_stream(stream, /):
    return _list(_aclmdlRIGetTasksByStream, stream)


@form(address)
def rt_mdl_ri_cond_handle_get_cond_ptr(handle, /):
    out = c_void_p()
    ret = _aclmdlRICondHandleGetCondPtr(handle, byref(out))
    return or_0(out.value), ret


@form(address, i32, u32, address, u32)
def rt_mdl_ri_add_cond_task(handle, kind, size, stream, flags, /):
    """The list has size handles of sub-models, or none if the call failed."""
    out = (c_void_p * min(size + 1, _MOST_MODELS + 2))()
    if size > _MOST_MODELS:
        size = _MOST_MODELS + 1  # still too many
    ret = _aclmdlRIAddCondTask(aclmdlRICondTaskParams(handle, kind, size, out), stream, flags)
    return [or_0(h) for h in out[:size]] if not ret else [], ret


@form(list_of(c_void_p, address))
def rt_create_label_list(labels, /):
    out = c_void_p()
    ret = _aclrtCreateLabelList(labels, len(labels), byref(out))
    return or_0(out.value), ret


# Tasks

_aclmdlRITaskGetParams = c_function("aclmdlRITaskGetParams", c_void_p, POINTER(aclmdlRITaskParams))
_aclmdlRITaskSetParams = c_function("aclmdlRITaskSetParams", c_void_p, POINTER(aclmdlRITaskParams))
_aclmdlRIKernelTaskGetAttribute = c_function(
    "aclmdlRIKernelTaskGetAttribute", c_void_p, c_int, POINTER(aclrtLaunchKernelAttrValue)
)

# The member of aclmdlRITaskParams that a kind of task uses, from kind 1 on.
_PARAMS = ("kernelTaskParams", "eventRecordTaskParams", "eventWaitTaskParams", "eventResetTaskParams",
           "valueWriteTaskParams", "valueWaitTaskParams")  # fmt: skip


@form(address)
def rt_mdl_ri_task_get_params(task, /):
    """params_dict is {"type", "taskGrp", "opInfoPtr", "opInfoSize"} and what the kind of the task has: "kernelTaskParams":
    {"funcHandle", "cfg", "args", "isHostArgs", "argsSize", "numBlocks"}, "valueWriteTaskParams": {"devAddr", "value"},
    "valueWaitTaskParams": {"devAddr", "value", "flag"}, or that of an event.
    """
    out = aclmdlRITaskParams()
    ret = _aclmdlRITaskGetParams(task, byref(out))
    params = {name: or_0(getattr(out, name)) for name in ("type", "taskGrp", "opInfoPtr", "opInfoSize")}
    if 1 <= out.type <= len(_PARAMS):
        member = _PARAMS[out.type - 1]
        values = {name: or_0(value) for name, value in dictionary_of(getattr(out, member)).items() if name != "rsv"}
        if "cfg" in values:
            values["cfg"] = []  # it is never filled; mdl_ri_kernel_task_get_attribute reads attributes
        params[member] = values
    return params, ret


@form(address, task_params)
def rt_mdl_ri_task_set_params(task, params, /):
    """params_dict is as mdl_ri_task_get_params gives it; what is left out is 0. cfg of a kernel is as in launch_kernel_v2."""
    return _aclmdlRITaskSetParams(task, byref(params))


@form(address, i32)
def rt_mdl_ri_kernel_task_get_attribute(task, attr_id, /):
    """attr_value_dict has the member that the attribute uses, {"schemMode": n} for attribute 1 and so on; {"rsv": [4 numbers]}
    for an attribute that is not known.
    """
    out = aclrtLaunchKernelAttrValue()
    ret = _aclmdlRIKernelTaskGetAttribute(task, attr_id, byref(out))
    member = chosen_member(aclrtLaunchKernelAttr, attr_id)
    if not member:
        return {"rsv": list(out.rsv)}, ret
    value = getattr(out, member)
    return {member: dictionary_of(value) if member == "timeoutUs" else value}, ret


# Functions for the end of a model. C knows one function, which is registered for each model that has some here.

_aclmdlRIDestroyRegisterCallback = c_function("aclmdlRIDestroyRegisterCallback", c_void_p, _DATA_FUNCTION, c_void_p)
_aclmdlRIDestroyUnregisterCallback = c_function("aclmdlRIDestroyUnregisterCallback", c_void_p, _DATA_FUNCTION)

_ends = {}  # model: [(function, its data)], in the order of registration; guarded by _ends_lock
_ends_lock = threading.RLock()  # a signal handler may register something, too. The functions run without it
_closed = False  # the interpreter is about to end: no more functions are registered


@_DATA_FUNCTION
def _run_ends(model):
    """Called by the runtime when a model is destroyed."""
    with _ends_lock:
        functions = _ends.pop(model, [])
    for function, data in functions:
        _call("acl.rt.mdl_ri_destroy_register_callback", function, data)


@_DATA_FUNCTION
def _unknown(_):
    """A function that no model has: C refuses to unregister it."""


@form(address, callable_, _anything)
def rt_mdl_ri_destroy_register_callback(model_ri, fn, user_data, /):
    """fn(user_data) runs in the thread that destroys the model, several in the order of their registration. What it raises
    goes to sys.unraisablehook."""
    with _ends_lock:
        if _closed:
            return _INTERNAL_ERROR
        functions = _ends.get(model_ri, [])
        if not functions or any(fn == other for other, _ in functions):
            ret = _aclmdlRIDestroyRegisterCallback(model_ri, _run_ends, model_ri)  # C refuses a second one
            if ret:
                return ret
        _ends[model_ri] = [*functions, (fn, user_data)]
    return 0


@form(address, callable_)
def rt_mdl_ri_destroy_unregister_callback(model_ri, fn, /):
    with _ends_lock:
        functions = _ends.get(model_ri, [])
        left = [each for each in functions if each[0] != fn]
        if len(left) == len(functions):
            return _aclmdlRIDestroyUnregisterCallback(model_ri, _unknown)
        if left:
            _ends[model_ri] = left
            return 0
        del _ends[model_ri]
        return _aclmdlRIDestroyUnregisterCallback(model_ri, _run_ends)


def _after_fork():
    """A child of a fork has no runtime, and no models."""
    global _ends, _ends_lock
    _ends, _ends_lock = {}, threading.RLock()


os.register_at_fork(after_in_child=_after_fork)


@atexit.register
def _close():
    """Stops the end of a model from calling Python."""
    global _closed
    _closed = True
    with _ends_lock, _checking.unjudged():
        for model in _ends:
            _aclmdlRIDestroyUnregisterCallback(model, _run_ends)
        _ends.clear()
