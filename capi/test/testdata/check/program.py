"""What the Python programs of this directory share. The calls that a finding is about stand in the programs themselves."""

import sys

import acl

FIXED = sys.argv[1:] == ["fixed"]
HUGE_FIRST = 0
H2H, H2D, D2H, D2D = range(4)
HOST, DEVICE = ({"id": 0, "type": type} for type in range(2))


def ok(result):
    """What a call returned without its code, which must be 0."""
    *values, ret = result if isinstance(result, tuple) else (result,)
    if ret != 0:
        raise SystemExit(f"error {ret}: {acl.get_recent_err_msg()}")
    return values[0] if len(values) == 1 else tuple(values)


def start():
    """Makes device 0 current and returns a stream of it."""
    ok(acl.init())
    ok(acl.rt.set_device(0))
    return ok(acl.rt.create_stream())


def finish(stream):
    """Releases what start took."""
    ok(acl.rt.destroy_stream(stream))
    ok(acl.rt.reset_device(0))
    ok(acl.finalize())
