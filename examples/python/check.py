"""What every example needs: to stop at the first call that fails, and to say why."""

import acl


class AclError(RuntimeError):
    """A call failed: its code and the library's own words. Nobody catches it here, so Python shows the line and ends with 1."""


def ok(result):
    """What a call returned without the code that comes last: nothing, one result, or a tuple of them. Any code but 0 raises.

    A function of acl never raises because of an error: it returns a code, and a program that ignores it goes on with rubbish.
    """
    *values, ret = result if isinstance(result, tuple) else (result,)
    if ret != 0:
        raise AclError(f"error {ret}\n{acl.get_recent_err_msg() or ''}")  # of this thread; None if there is nothing to say
    return values[0] if len(values) == 1 else tuple(values)


def expect(holds, what):
    """Ends the program unless the condition holds. (An assert would vanish under python3 -O.)"""
    if not holds:
        raise SystemExit(f"wrong: {what}")
