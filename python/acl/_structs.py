"""C structs as ctypes classes, and conversions between them and dictionaries.

The classes carry the names and fields of the header; tests/test_special.py compares size and offsets with the C compiler's.
"""

import ctypes
from ctypes import c_char, c_int, c_int32, c_size_t, c_uint8, c_uint16, c_uint32, c_uint64, c_void_p

from ._arguments import Bad, dictionary, integer


class aclrtMemLocation(ctypes.Structure):
    _fields_ = [("id", c_uint32), ("type", c_int)]


class aclrtMallocAttrValue(ctypes.Union):
    _fields_ = [("moduleId", c_uint16), ("deviceId", c_uint32), ("vaFlag", c_uint32), ("rsv", c_uint8 * 8)]


class aclrtMallocAttribute(ctypes.Structure):
    _fields_ = [("attr", c_int), ("value", aclrtMallocAttrValue)]


class aclrtMallocConfig(ctypes.Structure):
    _fields_ = [("attrs", ctypes.POINTER(aclrtMallocAttribute)), ("numAttrs", c_size_t)]


class aclrtPtrAttributes(ctypes.Structure):
    _fields_ = [("location", aclrtMemLocation), ("pageSize", c_uint32), ("rsv", c_uint32 * 4)]


class aclrtPhysicalMemProp(ctypes.Structure):
    _fields_ = [
        ("handleType", c_int),
        ("allocationType", c_int),
        ("memAttr", c_int),
        ("location", aclrtMemLocation),
        ("reserve", c_uint64),
    ]


class aclrtMemAccessDesc(ctypes.Structure):
    _fields_ = [("flags", c_int), ("location", aclrtMemLocation), ("rsv", c_uint8 * 12)]


class aclrtMemPoolProps(ctypes.Structure):
    _fields_ = [
        ("allocType", c_int),
        ("handleType", c_int),
        ("location", aclrtMemLocation),
        ("maxSize", c_size_t),
        ("reserved", c_uint8 * 32),
    ]


class aclmdlRICondTaskParams(ctypes.Structure):
    _fields_ = [("handle", c_void_p), ("type", c_int), ("size", c_uint32), ("modelRIArray", ctypes.POINTER(c_void_p))]


class aclrtMemManagedLocation(ctypes.Structure):
    _fields_ = [("type", c_int), ("id", c_int32)]


class aclrtServerPid(ctypes.Structure):
    _fields_ = [("sdid", c_uint32), ("pid", ctypes.POINTER(c_int32)), ("num", c_size_t)]


class aclrtIpcEventHandle(ctypes.Structure):
    _fields_ = [("reserved", c_uint8 * 64)]


class aclrtCntNotifyRecordInfo(ctypes.Structure):
    _fields_ = [("mode", c_int), ("value", c_uint32)]


class aclrtCntNotifyWaitInfo(ctypes.Structure):
    _fields_ = [("mode", c_int), ("value", c_uint32), ("timeout", c_uint32), ("isClear", c_uint8), ("rsv", c_uint8 * 3)]


class aclrtRandomParaInfo(ctypes.Structure):
    _fields_ = [("isAddr", c_uint8), ("valueOrAddr", c_uint8 * 8), ("size", c_uint8), ("rsv", c_uint8 * 6)]


class aclrtDropoutBitmaskInfo(ctypes.Structure):
    _fields_ = [("dropoutRation", aclrtRandomParaInfo)]


class aclrtUniformDisInfo(ctypes.Structure):
    _fields_ = [("min", aclrtRandomParaInfo), ("max", aclrtRandomParaInfo)]


class aclrtNormalDisInfo(ctypes.Structure):
    _fields_ = [("mean", aclrtRandomParaInfo), ("stddev", aclrtRandomParaInfo)]


class aclrtRandomNumFuncParaInfo(ctypes.Structure):
    class ParamInfo(ctypes.Union):
        _fields_ = [
            ("dropoutBitmaskInfo", aclrtDropoutBitmaskInfo),
            ("uniformDisInfo", aclrtUniformDisInfo),
            ("normalDisInfo", aclrtNormalDisInfo),
        ]

    _fields_ = [("funcType", c_int), ("paramInfo", ParamInfo)]


class aclrtRandomNumTaskInfo(ctypes.Structure):
    _fields_ = [
        ("dataType", c_int),
        ("randomNumFuncParaInfo", aclrtRandomNumFuncParaInfo),
        ("randomParaAddr", c_void_p),
        ("randomResultAddr", c_void_p),
        ("randomCounterAddr", c_void_p),
        ("randomSeed", aclrtRandomParaInfo),
        ("randomNum", aclrtRandomParaInfo),
        ("rsv", c_uint8 * 8),
    ]


class aclrtRandomTaskUpdateAttr(ctypes.Structure):
    _fields_ = [("srcAddr", c_void_p), ("size", c_size_t), ("rsv", c_uint32 * 4)]


class aclrtAicAivTaskUpdateAttr(ctypes.Structure):
    _fields_ = [("binHandle", c_void_p), ("funcEntryAddr", c_void_p), ("blockDimAddr", c_void_p), ("rsv", c_uint32 * 4)]


class aclrtUpdateTaskAttrVal(ctypes.Union):
    _fields_ = [("randomTaskAttr", aclrtRandomTaskUpdateAttr), ("aicAivTaskAttr", aclrtAicAivTaskUpdateAttr)]


class aclrtTaskUpdateInfo(ctypes.Structure):
    _fields_ = [("id", c_int), ("val", aclrtUpdateTaskAttrVal)]


class aclrtStreamAttrValue(ctypes.Union):
    _fields_ = [
        ("failureMode", c_uint64),
        ("overflowSwitch", c_uint32),
        ("userCustomTag", c_uint32),
        ("cacheOpInfoSwitch", c_uint32),
        ("streamPriority", c_uint32),
        ("reserve", c_uint32 * 4),
    ]


class aclrtBinaryLoadOptionValue(ctypes.Union):
    _fields_ = [("isLazyLoad", c_uint32), ("magic", c_uint32), ("cpuKernelMode", c_int32), ("rsv", c_uint32 * 4)]


class aclrtBinaryLoadOption(ctypes.Structure):
    _fields_ = [("type", c_int), ("value", aclrtBinaryLoadOptionValue)]
    chosen = "type", "value", ("isLazyLoad", "magic", "cpuKernelMode")


class aclrtBinaryLoadOptions(ctypes.Structure):
    _fields_ = [("options", ctypes.POINTER(aclrtBinaryLoadOption)), ("numOpt", c_size_t)]


class dim3(ctypes.Structure):
    _fields_ = [("x", c_uint32), ("y", c_uint32), ("z", c_uint32)]


class aclrtTimeoutUs(ctypes.Structure):
    _fields_ = [("timeoutLow", c_uint32), ("timeoutHigh", c_uint32)]


class aclrtLaunchKernelAttrValue(ctypes.Union):
    _fields_ = [
        ("schemMode", c_uint8),
        ("localMemorySize", c_uint32),
        ("dynUBufSize", c_uint32),
        ("engineType", c_int),
        ("blockDimOffset", c_uint32),
        ("isBlockTaskPrefetch", c_uint8),
        ("isDataDump", c_uint8),
        ("timeout", c_uint16),
        ("timeoutUs", aclrtTimeoutUs),
        ("enableProfiling", c_uint8),
        ("rsv", c_uint32 * 4),
    ]


class aclrtLaunchKernelAttr(ctypes.Structure):
    _fields_ = [("id", c_int), ("value", aclrtLaunchKernelAttrValue)]
    chosen = "id", "value", (
        "schemMode", "dynUBufSize", "engineType", "blockDimOffset", "isBlockTaskPrefetch", "isDataDump", "timeout",
        "timeoutUs", "enableProfiling",
    )  # fmt: skip


class aclrtLaunchKernelCfg(ctypes.Structure):
    _fields_ = [("attrs", ctypes.POINTER(aclrtLaunchKernelAttr)), ("numAttrs", c_size_t)]


class aclmdlRIKernelTaskParams(ctypes.Structure):
    _fields_ = [
        ("funcHandle", c_void_p),
        ("cfg", ctypes.POINTER(aclrtLaunchKernelCfg)),
        ("args", c_void_p),
        ("isHostArgs", c_uint32),
        ("argsSize", c_size_t),
        ("numBlocks", c_uint32),
        ("rsv", c_uint32 * 10),
    ]


class aclmdlRIEventRecordTaskParams(ctypes.Structure):
    _fields_ = [("event", c_void_p), ("eventFlag", c_uint32), ("recordFlag", c_uint32)]


class aclmdlRIEventWaitTaskParams(ctypes.Structure):
    _fields_ = [("event", c_void_p), ("eventFlag", c_uint32), ("waitFlag", c_uint32)]


class aclmdlRIEventResetTaskParams(ctypes.Structure):
    _fields_ = [("event", c_void_p), ("eventFlag", c_uint32), ("resetFlag", c_uint32)]


class aclmdlRIValueWriteTaskParams(ctypes.Structure):
    _fields_ = [("devAddr", c_void_p), ("value", c_uint64)]


class aclmdlRIValueWaitTaskParams(ctypes.Structure):
    _fields_ = [("devAddr", c_void_p), ("value", c_uint64), ("flag", c_uint32)]


class aclmdlRITaskParams(ctypes.Structure):
    class Union(ctypes.Union):
        _fields_ = [
            ("rsv2", c_uint8 * 128),
            ("kernelTaskParams", aclmdlRIKernelTaskParams),
            ("eventRecordTaskParams", aclmdlRIEventRecordTaskParams),
            ("eventWaitTaskParams", aclmdlRIEventWaitTaskParams),
            ("eventResetTaskParams", aclmdlRIEventResetTaskParams),
            ("valueWriteTaskParams", aclmdlRIValueWriteTaskParams),
            ("valueWaitTaskParams", aclmdlRIValueWaitTaskParams),
        ]

    _anonymous_ = ("union",)
    _fields_ = [
        ("type", c_int),
        ("rsv0", c_uint32 * 3),
        ("taskGrp", c_void_p),
        ("opInfoPtr", c_void_p),
        ("opInfoSize", c_size_t),
        ("rsv1", c_uint8 * 32),
        ("union", Union),
    ]


class aclrtPlaceHolderInfo(ctypes.Structure):
    _fields_ = [("addrOffset", c_uint32), ("dataOffset", c_uint32)]


class aclrtUtilizationInfo(ctypes.Structure):
    _fields_ = [
        ("cubeUtilization", c_int32),
        ("vectorUtilization", c_int32),
        ("aicpuUtilization", c_int32),
        ("memoryUtilization", c_int32),
        ("utilizationExtend", c_void_p),
    ]


class aclrtUuid(ctypes.Structure):
    _fields_ = [("bytes", c_uint8 * 16)]


class aclrtMemUceInfo(ctypes.Structure):
    _fields_ = [("addr", c_void_p), ("len", c_size_t), ("reserved", c_size_t * 14)]


class aclCANNPackageVersion(ctypes.Structure):
    _fields_ = [
        ("version", c_char * 128),
        ("majorVersion", c_char * 64),
        ("minorVersion", c_char * 64),
        ("releaseVersion", c_char * 64),
        ("patchVersion", c_char * 64),
        ("reserved", c_char * 128),
    ]


class aclrtMemcpyBatchAttr(ctypes.Structure):
    _fields_ = [("dstLoc", aclrtMemLocation), ("srcLoc", aclrtMemLocation), ("rsv", c_uint8 * 16)]


def members(kind):
    """The names and types of a struct's members; those of an unnamed union belong to the struct."""
    for name, type_ in kind._fields_:
        if name in getattr(kind, "_anonymous_", ()):
            yield from members(type_)
        else:
            yield name, type_


def chosen_member(kind, number):
    """The name of the union's member that a number selects, in a struct of a number and a union; None for an
    unknown number.

    chosen of such a struct has the names of number and union, and the members for the numbers starting with
 # 1.
    """
    names = kind.chosen[2]
    return names[number - 1] if 1 <= number <= len(names) else None


def fill(struct, values, path=""):
    """Writes a dictionary to a struct. Members that it does not name do not change; unknown names are
    refused. A union selected by a number beside it may be an integer.

    path is the path of the struct inside the argument, for messages.
    """
    if not isinstance(values, dict):
        raise _bad(TypeError, path, f"must be dict, not {type(values).__name__}")
    types = dict(members(type(struct)))
    chooser, union, _ = getattr(struct, "chosen", (None, None, None))
    for name, value in values.items():
        if name not in types:
            names = ", ".join(types)
            raise _bad(ValueError, path, f"has no entry {name!r}; those of {type(struct).__name__} are {names}")
        kind, inside = types[name], f"{path}.{name}" if path else name
        if name == union and not isinstance(value, dict):
            number = _number(values.get(chooser, 0), types[chooser], inside[: -len(name)] + chooser)
            member = chosen_member(type(struct), number)
            _fill_whole(getattr(struct, name), dict(kind._fields_)[member] if member else kind, value, inside, "int or dict")
        elif issubclass(kind, (ctypes.Structure, ctypes.Union)):
            fill(getattr(struct, name), value, inside)
        elif issubclass(kind, ctypes.Array):
            _fill_array(getattr(struct, name), kind, value, inside)
        else:
            setattr(struct, name, _number(value, kind, inside))
    return struct


def _fill_array(array, kind, value, path):
    """A list fills the first elements; an integer fills the whole array as one number."""
    if not isinstance(value, (list, tuple)):
        _fill_whole(array, kind, value, path)
    elif len(value) > kind._length_:
        raise _bad(ValueError, path, f"has {len(value)} elements; there is room for {kind._length_}")
    else:
        for i, element in enumerate(value):
            array[i] = _number(element, kind._type_, f"{path}[{i}]")


def _fill_whole(place, kind, value, path, wanted="int"):
    """Writes an integer to the bytes of a kind at a place, as one number."""
    size = ctypes.sizeof(kind)
    ctypes.memmove(ctypes.byref(place), _number(value, kind, path, wanted).to_bytes(size, "little"), size)


def _number(value, kind, path, wanted="int"):
    """value as an unsigned integer as large as kind."""
    bits = 8 * ctypes.sizeof(kind)
    try:
        return integer(value, -(1 << bits - 1), (1 << bits) - 1, bits, wanted) & (1 << bits) - 1
    except Bad as bad:
        raise _bad(bad.kind, path, bad.what) from None


def _bad(kind, path, what):
    return Bad(kind, f"{path} {what}" if path else what)


def fill_list(kind, values, path=""):
    """An array of structs from a list of dictionaries; None if the list is empty."""
    if not isinstance(values, (list, tuple)):
        raise _bad(TypeError, path, f"must be list, not {type(values).__name__}")
    if not values:
        return None
    array = (kind * len(values))()
    for i, value in enumerate(values):
        fill(array[i], value, f"{path}[{i}]")
    return array


def malloc_config(value):
    """An aclrtMallocConfig. {} is NULL. numAttrs may be omitted: then it is the number of attrs."""
    unknown = set(dictionary(value)) - {"attrs", "numAttrs"}
    if unknown:
        raise Bad(ValueError, f"has no entry {min(map(str, unknown))!r}; those of aclrtMallocConfig are attrs, numAttrs")
    if not value:
        return None
    attrs = fill_list(aclrtMallocAttribute, value.get("attrs", []), "attrs")
    there = len(attrs) if attrs else 0
    count = _number(value.get("numAttrs", there), c_size_t, "numAttrs")
    if attrs and count > there:
        raise Bad(ValueError, f"numAttrs is {count}, but attrs has {there} elements")
    return aclrtMallocConfig(attrs, count)


def struct_of(kind):
    """A struct from a dictionary."""

    def convert(value):
        return fill(kind(), dictionary(value))

    return convert


def list_of_structs(kind):
    """An array of structs from a list of dictionaries; it may be empty."""

    def convert(values):
        return fill_list(kind, values) or (kind * 0)()

    return convert


def counted_list(kind, element):
    """A struct with the address and the length of an array, from a list of dictionaries; an empty list is
    NULL."""

    def convert(values):
        array = fill_list(element, values)
        return None if array is None else kind(array, len(array))

    return convert


def task_params(value):
    """An aclmdlRITaskParams. cfg of a kernel is a list of attributes; an empty one is NULL."""
    value = dict(dictionary(value))
    kernel, cfg = value.get("kernelTaskParams"), None
    if isinstance(kernel, dict) and "cfg" in kernel:
        value["kernelTaskParams"] = kernel = dict(kernel)
        cfg = fill_list(aclrtLaunchKernelAttr, kernel.pop("cfg"), "kernelTaskParams.cfg")
    made = fill(aclmdlRITaskParams(), value)
    if cfg is not None:
        made.kernelTaskParams.cfg = ctypes.pointer(aclrtLaunchKernelCfg(cfg, len(cfg)))
    return made


def size3(value):
    """A dim3; members that the dictionary does not name are 1."""
    return fill(dim3(1, 1, 1), dictionary(value))


physical_mem_prop = struct_of(aclrtPhysicalMemProp)


def server_pids(values):
    """An array of aclrtServerPid from a list of {"sdid": n, "pid": [pids]}. num may be omitted: then it is
    the number of pids."""
    if not isinstance(values, (list, tuple)):
        raise Bad(TypeError, f"must be list, not {type(values).__name__}")
    servers = (aclrtServerPid * len(values))()
    for i, value in enumerate(values):
        if not isinstance(value, dict):
            raise _bad(TypeError, f"[{i}]", f"must be dict, not {type(value).__name__}")
        unknown = set(value) - {"sdid", "pid", "num"}
        if unknown:
            named = min(map(str, unknown))
            raise _bad(ValueError, f"[{i}]", f"has no entry {named!r}; those of aclrtServerPid are sdid, pid, num")
        pids = value.get("pid", [])
        if not isinstance(pids, (list, tuple)):
            raise _bad(TypeError, f"[{i}].pid", f"must be list, not {type(pids).__name__}")
        numbers = [_number(pid, c_int32, f"[{i}].pid[{j}]") for j, pid in enumerate(pids)]
        count = _number(value.get("num", len(numbers)), c_size_t, f"[{i}].num")
        if count > len(numbers):
            raise _bad(ValueError, f"[{i}].num", f"is {count}, but pid has {len(numbers)} elements")
        servers[i].sdid = _number(value.get("sdid", 0), c_uint32, f"[{i}].sdid")
        servers[i].pid = (c_int32 * len(numbers))(*[c_int32(number).value for number in numbers])
        servers[i].num = count
    return servers


def stream_attr_value(value):
    """An aclrtStreamAttrValue. pyACL calls the last member reserved, the header reserve."""
    value = dict(dictionary(value))
    if "reserved" in value:
        value["reserve"] = value.pop("reserved")
    return fill(aclrtStreamAttrValue(), value)


def dictionary_of(struct):
    """A struct of numbers and structs as a dictionary."""
    values = {}
    for name, kind in struct._fields_:
        value = getattr(struct, name)
        values[name] = dictionary_of(value) if issubclass(kind, ctypes.Structure) else value
    return values


def location(place):
    """An aclrtMemLocation as a dictionary."""
    return {"id": place.id, "type": place.type}
