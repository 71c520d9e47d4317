"""Shared code of the hand-written forms: their public names, and the checks of their arguments.

The conventions are those of the generated forms. Arguments are positional. A wrong number or type raises TypeError, an
integer that no register holds raises OverflowError; both name the function and the argument. A negative integer is what C
makes of it.
"""

import functools
from operator import index

from ._forms import FORMS


class Bad(Exception):
    """An argument is invalid: kind is the exception type, what the reason. form() adds the function and the
    argument."""

    def __init__(self, kind, what):
        super().__init__(kind, what)
        self.kind, self.what = kind, what


_SPECIAL = {form.id: form for form in FORMS if form.kind == "special"}


def form(*kinds, optional=0):
    """Makes a function the form of its name: rt_memcpy_batch is acl.rt.memcpy_batch, acl_init is acl.init.

    Parameters, path and text come from the table. Each kind is a function for one argument: it returns the
    value for the C call, or raises Bad. The last arguments may be optional. A docstring adds to the text of
    the table.
    """

    def make(function):
        this = _SPECIAL[function.__name__]
        names = [name for name, _ in this.params]
        assert len(names) == len(kinds), this.path

        @functools.wraps(function)
        def call(*arguments):
            given = len(arguments)
            if not len(kinds) - optional <= given <= len(kinds):
                s = "" if len(names) == 1 else "s"
                raise TypeError(f"{this.path}: takes {len(names)} argument{s} ({', '.join(names) or 'none'}), not {given}")
            checked = []
            for kind, argument in zip(kinds, arguments):
                try:
                    checked.append(kind(argument))
                except Bad as bad:
                    place = len(checked)
                    raise bad.kind(f"{this.path}: argument {place + 1} ({names[place]}) {bad.what}") from None
            return function(*checked)

        call.__module__, call.__name__, call.__qualname__ = this.module, this.name, this.name
        call.__doc__ = this.doc
        if function.__doc__:
            call.__doc__ += "\n\n" + " ".join(function.__doc__.split())
        return call

    return make


def integer(value, least, most, bits, wanted="int"):
    """value as an integer from least to most. wanted describes the allowed values in the error."""
    try:
        number = index(value)
    except TypeError:
        raise Bad(TypeError, f"must be {wanted}, not {type(value).__name__}") from None
    if not least <= number <= most:
        raise Bad(OverflowError, f"does not fit {bits} bits")
    return number


def u64(value):
    """A size or another number of 64 bits."""
    return integer(value, -(1 << 63), (1 << 64) - 1, 64) & 0xFFFF_FFFF_FFFF_FFFF


def address(value):
    """An address or a handle."""
    try:
        return u64(value)
    except Bad as bad:
        raise Bad(bad.kind, bad.what + _hint(value)) from None


def _hint(value):
    if isinstance(value, bytes):
        return "; use acl.util.bytes_to_ptr"
    if type(value).__name__ == "ndarray":
        return "; use acl.util.numpy_contiguous_to_ptr"
    return "; NULL is 0" if value is None else ""


def i32(value):
    """An int32_t or an enumeration."""
    return integer(value, -(1 << 31), (1 << 31) - 1, 32)


def u32(value):
    """A uint32_t."""
    return integer(value, -(1 << 31), (1 << 32) - 1, 32) & 0xFFFF_FFFF


def list_of(kind, element):
    """An array of a ctypes kind from a list of integers; element checks each."""

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


def block_of(size):
    """An opaque block of the given size."""

    def convert(value):
        if not isinstance(value, (bytes, bytearray)):
            raise Bad(TypeError, f"must be bytes, not {type(value).__name__}")
        if len(value) != size:
            raise Bad(ValueError, f"must have {size} bytes, not {len(value)}")
        return bytes(value)

    return convert


def text(value):
    """A name or a key, as a C string."""
    if not isinstance(value, str):
        raise Bad(TypeError, f"must be str, not {type(value).__name__}")
    try:
        encoded = value.encode()
    except UnicodeEncodeError as error:
        raise Bad(ValueError, f"is not text: {error}") from None
    if b"\0" in encoded:
        raise Bad(ValueError, "has a null character in it")
    return encoded


def callable_(value):
    """A Python function."""
    if not callable(value):
        raise Bad(TypeError, f"must be callable, not {type(value).__name__}")
    return value


def dictionary(value):
    """A dictionary that represents a C struct."""
    if not isinstance(value, dict):
        raise Bad(TypeError, f"must be dict, not {type(value).__name__}")
    return value
