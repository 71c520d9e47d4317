"""Kernels: the forms with lists, dictionaries and names.

Options of a load are [{"type": n, "value": v}], attributes of a launch [{"id": n, "value": v}], placeholders
[{"addrOffset": n, "dataOffset": m}]; an empty list is NULL. A value is an integer, which type or id gives its meaning, or a
dictionary with a member of the C union: {"isLazyLoad": 1}, {"schemMode": 1}.
"""

import atexit
import contextlib
import ctypes
import inspect
import itertools
import sys
import traceback
from ctypes import CFUNCTYPE, POINTER, byref, c_char_p, c_int32, c_size_t, c_uint32, c_void_p

from . import _checking, _structs, util
from ._arguments import address, callable_, form, list_of, text, u32, u64
from ._callbacks import _anything, _call, _tell
from ._library import c_function, decoded, or_0

_options = _structs.counted_list(_structs.aclrtBinaryLoadOptions, _structs.aclrtBinaryLoadOption)
_config = _structs.counted_list(_structs.aclrtLaunchKernelCfg, _structs.aclrtLaunchKernelAttr)
_place_holders = _structs.list_of_structs(_structs.aclrtPlaceHolderInfo)
_addresses = list_of(c_void_p, address)

_OPTIONS, _CONFIG = POINTER(_structs.aclrtBinaryLoadOptions), POINTER(_structs.aclrtLaunchKernelCfg)
_PLACE_HOLDERS = POINTER(_structs.aclrtPlaceHolderInfo)

# Binaries and functions

_aclrtBinaryLoadFromFile = c_function("aclrtBinaryLoadFromFile", c_char_p, _OPTIONS, POINTER(c_void_p))
_aclrtBinaryLoadFromData = c_function("aclrtBinaryLoadFromData", c_void_p, c_size_t, _OPTIONS, POINTER(c_void_p))
_aclrtBinaryGetFunction = c_function("aclrtBinaryGetFunction", c_void_p, c_char_p, POINTER(c_void_p))
_aclrtBinaryGetGlobal = c_function("aclrtBinaryGetGlobal", c_void_p, c_char_p, POINTER(c_void_p), POINTER(c_size_t))
_aclrtGetFunctionName = c_function("aclrtGetFunctionName", c_void_p, c_uint32, c_char_p)
_aclrtRegisterCpuFunc = c_function("aclrtRegisterCpuFunc", c_void_p, c_char_p, c_char_p, POINTER(c_void_p))
_aclrtCheckArchCompatibility = c_function("aclrtCheckArchCompatibility", c_char_p, POINTER(c_int32))

_MOST_NAME = 1 << 20  # limit of the room for a name; no kernel's name is that long


@form(text, _options)
def rt_binary_load_from_file(bin_path, options_list, /):
    """options_list is [{"type": n, "value": v}]; [] is none. v may be {"isLazyLoad" or "magic" or "cpuKernelMode": v}."""
    out = c_void_p()
    ret = _aclrtBinaryLoadFromFile(bin_path, options_list, byref(out))
    return or_0(out.value), ret


@form(address, u64, _options)
def rt_binary_load_from_data(data, length, options_list, /):
    """options_list as in binary_load_from_file."""
    out = c_void_p()
    ret = _aclrtBinaryLoadFromData(data, length, options_list, byref(out))
    return or_0(out.value), ret


@form(address, text)
def rt_binary_get_function(bin_handle, kernel_name, /):
    out = c_void_p()
    ret = _aclrtBinaryGetFunction(bin_handle, kernel_name, byref(out))
    return or_0(out.value), ret


@form(address, text)
def rt_binary_get_global(bin_handle, name, /):
    out, size = c_void_p(), c_size_t()
    ret = _aclrtBinaryGetGlobal(bin_handle, name, byref(out), byref(size))
    return or_0(out.value), size.value, ret


@form(address, u32)
def rt_get_function_name(func_handle, max_len, /):
    room = ctypes.create_string_buffer(min(max_len, _MOST_NAME) or 1)
    ret = _aclrtGetFunctionName(func_handle, min(max_len, _MOST_NAME), room)
    return decoded(room.value), ret


@form(address, text, text)
def rt_register_cpu_func(bin_handle, func_name, kernel_name, /):
    out = c_void_p()
    ret = _aclrtRegisterCpuFunc(bin_handle, func_name, kernel_name, byref(out))
    return or_0(out.value), ret


@form(text)
def rt_check_arch_compatibility(soc_version, /):
    """can_compatible is 1 if kernels for that product run on this one."""
    out = c_int32()
    ret = _aclrtCheckArchCompatibility(soc_version, byref(out))
    return out.value, ret


# Exception callbacks. C gets the number of the function, which is kept for ever: an unloaded binary may still
# have launches.

_ON_EXCEPTION = CFUNCTYPE(None, c_void_p, c_void_p)
_aclrtBinarySetExceptionCallback = c_function("aclrtBinarySetExceptionCallback", c_void_p, _ON_EXCEPTION, c_void_p)
_numbers = itertools.count(1)
_on_exception = {}  # number: (function, its data)


@_ON_EXCEPTION
def _run_on_exception(info, number):
    function, data = _on_exception[number]
    _call("acl.rt.binary_set_exception_callback", function, info or 0, data)


@form(address, callable_, _anything)
def rt_binary_set_exception_callback(bin_handle, fn, user_data, /):
    """fn(info, user_data) runs in a thread of the runtime. info is good for get_*_from_exception_info until fn returns."""
    number = next(_numbers)
    _on_exception[number] = fn, user_data
    ret = _aclrtBinarySetExceptionCallback(bin_handle, _run_on_exception, number)
    if ret:
        del _on_exception[number]
    return ret


# Launches

_aclrtLaunchKernelV2 = c_function("aclrtLaunchKernelV2", c_void_p, c_uint32, c_void_p, c_size_t, _CONFIG, c_void_p)
_aclrtLaunchKernelWithConfig = c_function(
    "aclrtLaunchKernelWithConfig", c_void_p, c_uint32, c_void_p, _CONFIG, c_void_p, c_void_p
)
_aclrtLaunchKernelWithHostArgs = c_function(
    "aclrtLaunchKernelWithHostArgs", c_void_p, c_uint32, c_void_p, _CONFIG, c_void_p, c_size_t, _PLACE_HOLDERS, c_size_t
)
_aclrtLaunchKernelWithArgsArray = c_function(
    "aclrtLaunchKernelWithArgsArray", c_void_p, c_uint32, c_void_p, _CONFIG, POINTER(c_void_p)
)
_aclrtLaunchSIMTKernelWithArgsArray = c_function(
    "aclrtLaunchSIMTKernelWithArgsArray",
    c_void_p, _structs.dim3, _structs.dim3, c_size_t, c_void_p, _CONFIG, POINTER(c_void_p),
)  # fmt: skip
_aclrtLaunchSIMTKernelWithHostArgs = c_function(
    "aclrtLaunchSIMTKernelWithHostArgs",
    c_void_p, _structs.dim3, _structs.dim3, c_size_t, c_void_p, _CONFIG, c_void_p, c_size_t, _PLACE_HOLDERS, c_size_t,
)  # fmt: skip


@form(address, u32, address, u64, _config, address)
def rt_launch_kernel_v2(func_handle, num_blocks, args_data, args_size, cfg_list, stream, /):
    """cfg_list is [{"id": n, "value": v}]; [] is none. v may be {"schemMode" or another member of the union: v}."""
    return _aclrtLaunchKernelV2(func_handle, num_blocks, args_data, args_size, cfg_list, stream)


@form(address, u32, address, _config, address, address)
def rt_launch_kernel_with_config(func_handle, num_blocks, stream, cfg_list, args_handle, reserve, /):
    """cfg_list as in launch_kernel_v2."""
    return _aclrtLaunchKernelWithConfig(func_handle, num_blocks, stream, cfg_list, args_handle, reserve)


def _enough(path, values, count):
    """The C call would read past the end of the list."""
    if count > len(values):
        raise ValueError(f"{path}: place_holder_num is {count}, but place_holder_list has {len(values)} elements")
    return values or None


@form(address, u32, address, _config, address, u64, _place_holders, u64)
def rt_launch_kernel_with_host_args(
    func_handle, num_blocks, stream, cfg_list, host_args_ptr, host_args_size, place_holder_list, place_holder_num, /
):
    """cfg_list as in launch_kernel_v2. place_holder_list is [{"addrOffset": n, "dataOffset": m}]. The addresses of the
    placeholders are written to host_args_ptr."""
    place_holder_list = _enough("acl.rt.launch_kernel_with_host_args", place_holder_list, place_holder_num)
    return _aclrtLaunchKernelWithHostArgs(
        func_handle, num_blocks, stream, cfg_list, host_args_ptr, host_args_size, place_holder_list, place_holder_num
    )


@form(address, u32, address, _config, _addresses)
def rt_launch_kernel_with_args_array(func, num_blocks, stream, cfg_list, args, /):
    """cfg_list as in launch_kernel_v2. args has, for each parameter, the address of its value."""
    return _with_args_array("acl.rt.launch_kernel_with_args_array", func, args, lambda list_:
        _aclrtLaunchKernelWithArgsArray(func, num_blocks, stream, cfg_list, list_))  # fmt: skip


@form(address, _structs.size3, _structs.size3, u64, address, _config, _addresses)
def rt_launch_simt_kernel_with_args_array(func, grid_dim_dict, block_dim_dict, dyn_ubuf_size, stream, cfg_list, args, /):
    """grid_dim_dict and block_dim_dict are {"x": n, "y": n, "z": n}; what is left out is 1. The rest is as in
    launch_kernel_with_args_array."""
    return _with_args_array("acl.rt.launch_simt_kernel_with_args_array", func, args, lambda list_:
        _aclrtLaunchSIMTKernelWithArgsArray(
            func, grid_dim_dict, block_dim_dict, dyn_ubuf_size, stream, cfg_list, list_))  # fmt: skip


_aclrtFunctionGetParamCount = c_function("aclrtFunctionGetParamCount", c_void_p, POINTER(c_size_t))


def _with_args_array(path, func, args, launch):
    """The C call reads as many elements as the kernel has parameters; where it does not know the kernel, it reads none."""
    count = c_size_t()
    with _checking.unjudged():
        known = _aclrtFunctionGetParamCount(func, byref(count)) == 0
    if args and known and count.value > len(args):
        raise ValueError(f"{path}: args has {len(args)} elements, and the kernel {count.value} parameters")
    return launch(args or None)


@form(address, _structs.size3, _structs.size3, u64, address, _config, address, u64, _place_holders, u64)
def rt_launch_simt_kernel_with_host_args(
    func, grid_dim_dict, block_dim_dict, dyn_ubuf_size, stream, cfg_list,
    host_args_ptr, host_args_size, place_holder_list, place_holder_num, /
):  # fmt: skip
    """As launch_simt_kernel_with_args_array and launch_kernel_with_host_args; host_args_ptr is only read."""
    place_holder_list = _enough("acl.rt.launch_simt_kernel_with_host_args", place_holder_list, place_holder_num)
    return _aclrtLaunchSIMTKernelWithHostArgs(
        func, grid_dim_dict, block_dim_dict, dyn_ubuf_size, stream, cfg_list,
        host_args_ptr, host_args_size, place_holder_list, place_holder_num,
    )  # fmt: skip


# Python functions as kernels


class Block:
    """A block of a kernel that is a Python function: its number, the number of blocks, the argument buffer as
    bytes."""

    __slots__ = ("args", "idx", "num")

    def __init__(self, idx, num, args):
        self.idx, self.num, self.args = idx, num, args

    def reads(self, ptr, size):
        """Says that the block reads memory, for ropeway check; a kernel that says nothing is not judged."""
        _ropeway_touches(ptr, size, 0)

    def writes(self, ptr, size):
        """Says that the block writes memory."""
        _ropeway_touches(ptr, size, 1)


_ropeway_touches = c_function("ropeway_touches", c_void_p, c_size_t, c_int32, restype=None)


class _CBlock(ctypes.Structure):
    _fields_ = [("idx", c_uint32), ("num", c_uint32), ("sub", c_uint32), ("reserved", c_uint32), ("args", c_void_p),
                ("size", c_size_t)]  # fmt: skip


_CALL = CFUNCTYPE(c_int32, POINTER(_CBlock), c_void_p)


class _CFunction(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("call", _CALL), ("data", c_void_p)]


_ropeway_load_functions = c_function("ropeway_load_functions", POINTER(_CFunction), c_size_t, POINTER(c_void_p))
_kernels = {}  # number: (function, number of its arguments; None: all). They are kept: launches of an
              # unloaded binary may run


@_CALL
def _run_block(c_block, number):
    block = c_block.contents
    args = ctypes.string_at(block.args, block.size) if block.size else b""
    words = [int.from_bytes(args[i : i + 8], sys.byteorder) for i in range(0, len(args), 8)]
    function, count = _kernels[number]
    util._thread.kernel = True
    try:
        function(Block(block.idx, block.num, args), *words[:count])
    except BaseException as error:
        _explain(c_block, block.reserved, error)
        _tell_of_kernel(function, error)
        return 1
    finally:
        util._thread.kernel = False
    return 0


def _explain(c_block, room, error):
    """Writes the exception of a function to the room bytes behind the block, where the runtime reads it."""
    with contextlib.suppress(Exception):  # a class of the program may fail here
        text = traceback.format_exception_only(type(error), error)[-1].strip().encode(errors="replace")
        text = text[: max(room - 1, 0)]
        ctypes.memmove(ctypes.addressof(c_block.contents) + ctypes.sizeof(_CBlock), text, len(text))  # zeros follow it


def _tell_of_kernel(function, error):
    """Prints the exception of a kernel with its traceback: the error of its launch has only the last line."""
    hook = sys.unraisablehook
    if hook is not sys.__unraisablehook__:
        _tell("acl.util.load_kernels", function, error)
    elif sys.stderr is not None:
        text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        with contextlib.suppress(Exception):
            sys.stderr.write(f"Exception in a kernel, whose launch fails: {function!r}\n{text}")
            sys.stderr.flush()


def _count(function):
    """The number of words of the argument buffer that a function takes after the block; None: any number."""
    parameters = list(inspect.signature(function).parameters.values())
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return None
    return max(sum(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters) - 1, 0)


def load_functions(functions):
    """Loads Python functions by their names: (bin_handle, ret)."""
    made = (_CFunction * len(functions))()
    for place, (name, function) in zip(made, functions.items()):
        number = next(_numbers)
        _kernels[number] = function, _count(function)
        place.name, place.call, place.data = name, _run_block, number
    out = c_void_p()
    ret = _ropeway_load_functions(made, len(functions), byref(out))
    if ret:
        for place in made:
            del _kernels[place.data]
    return or_0(out.value), ret


@atexit.register
def _close():
    """Launches of Python functions get a moment to run: nothing may call into an interpreter that is gone."""
    if _kernels:
        with _checking.unjudged():
            _aclrtSynchronizeDeviceWithTimeout(1000)


_aclrtSynchronizeDeviceWithTimeout = c_function("aclrtSynchronizeDeviceWithTimeout", c_int32)
