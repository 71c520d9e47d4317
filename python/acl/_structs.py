"""C structs as ctypes classes, and the way between them and dictionaries.

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


class aclrtStreamAttrValue(ctypes.Union):
    _fields_ = [
        ("failureMode", c_uint64),
        ("overflowSwitch", c_uint32),
        ("userCustomTag", c_uint32),
        ("cacheOpInfoSwitch", c_uint32),
        ("streamPriority", c_uint32),
        ("reserve", c_uint32 * 4),
    ]


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


def fill(struct, values, path=""):
    """Writes a dictionary into a struct. What it does not name stays; a name the struct does not have is refused.

    path leads to the struct inside the argument; it is for messages.
    """
    if not isinstance(values, dict):
        raise _bad(TypeError, path, f"must be dict, not {type(values).__name__}")
    types = dict(struct._fields_)
    for name, value in values.items():
        if name not in types:
            names = ", ".join(types)
            raise _bad(ValueError, path, f"has no entry {name!r}; those of {type(struct).__name__} are {names}")
        kind, inside = types[name], f"{path}.{name}" if path else name
        if issubclass(kind, (ctypes.Structure, ctypes.Union)):
            fill(getattr(struct, name), value, inside)
        elif issubclass(kind, ctypes.Array):
            _fill_array(getattr(struct, name), kind, value, inside)
        else:
            setattr(struct, name, _number(value, kind, inside))
    return struct


def _fill_array(array, kind, value, path):
    """A list fills the elements from the first on; an integer is the whole array, as if that were one number."""
    if not isinstance(value, (list, tuple)):
        size = ctypes.sizeof(kind)
        ctypes.memmove(array, _number(value, kind, path).to_bytes(size, "little"), size)
    elif len(value) > kind._length_:
        raise _bad(ValueError, path, f"has {len(value)} elements; there is room for {kind._length_}")
    else:
        for i, element in enumerate(value):
            array[i] = _number(element, kind._type_, f"{path}[{i}]")


def _number(value, kind, path):
    """value as an unsigned integer as large as kind."""
    bits = 8 * ctypes.sizeof(kind)
    try:
        return integer(value, -(1 << bits - 1), (1 << bits) - 1, bits) & (1 << bits) - 1
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
    """An aclrtMallocConfig. {} is none at all. numAttrs may be left out: it is the number of attrs then."""
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


def physical_mem_prop(value):
    """An aclrtPhysicalMemProp."""
    return fill(aclrtPhysicalMemProp(), dictionary(value))


def stream_attr_value(value):
    """An aclrtStreamAttrValue. pyACL calls the last member reserved, the header reserve."""
    value = dict(dictionary(value))
    if "reserved" in value:
        value["reserve"] = value.pop("reserved")
    return fill(aclrtStreamAttrValue(), value)


def location(place):
    """An aclrtMemLocation as a dictionary."""
    return {"id": place.id, "type": place.type}
