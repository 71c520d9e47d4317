"""Models: names, files, and the streams and tasks that they have."""

from ctypes import POINTER, byref, c_char_p, c_size_t, c_uint32, c_void_p, create_string_buffer

from ._arguments import address, form, i32, list_of, text, u32
from ._library import c_function, or_0
from ._structs import aclmdlRICondTaskParams

_aclmdlRISetName = c_function("aclmdlRISetName", c_void_p, c_char_p)
_aclmdlRIGetName = c_function("aclmdlRIGetName", c_void_p, c_uint32, c_char_p)
_aclmdlRIDebugJsonPrint = c_function("aclmdlRIDebugJsonPrint", c_void_p, c_char_p, c_uint32)
_aclmdlRIGetStreams = c_function("aclmdlRIGetStreams", c_void_p, POINTER(c_void_p), POINTER(c_uint32))
_aclmdlRIGetTasksByStream = c_function("aclmdlRIGetTasksByStream", c_void_p, POINTER(c_void_p), POINTER(c_uint32))
_aclmdlRICondHandleGetCondPtr = c_function("aclmdlRICondHandleGetCondPtr", c_void_p, POINTER(c_void_p))
_aclrtCreateLabelList = c_function("aclrtCreateLabelList", POINTER(c_void_p), c_size_t, POINTER(c_void_p))
_aclmdlRIAddCondTask = c_function("aclmdlRIAddCondTask", aclmdlRICondTaskParams, c_void_p, c_uint32)

_MOST_MODELS = 1 << 16  # that a condition task has
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
    """The handles that a function lists: it is asked for their number, and then for them."""
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
        size = _MOST_MODELS + 1  # too many, too
    ret = _aclmdlRIAddCondTask(aclmdlRICondTaskParams(handle, kind, size, out), stream, flags)
    return [or_0(h) for h in out[:size]] if not ret else [], ret


@form(list_of(c_void_p, address))
def rt_create_label_list(labels, /):
    out = c_void_p()
    ret = _aclrtCreateLabelList(labels, len(labels), byref(out))
    return or_0(out.value), ret
