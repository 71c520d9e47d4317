"""What the programs share that call every form once: calls by path that must succeed, and which of them did."""

import acl
from acl import _forms, prof, rt

FORMS = {form.path: form for form in _forms.FORMS if form.built}  # by path; what is built


class Session:
    """Calls forms by their paths, and keeps which of them have succeeded."""

    def __init__(self):
        self.succeeded = set()

    def __call__(self, path, *arguments):
        """Calls a form that must succeed. Returns what it gives besides the code."""
        form = FORMS[path]
        name = form.name
        result = getattr({"acl": acl, "acl.rt": rt, "acl.prof": prof}[form.module], name)(*arguments)
        self.succeeded.add(path)
        if form.ret != "code" or name.endswith("_last_error"):
            return result
        *values, code = result if isinstance(result, tuple) else (result,)
        if code != 0:
            raise AssertionError(f"{path}{arguments} returned {code}: {acl.get_recent_err_msg()}")
        return values[0] if len(values) == 1 else tuple(values)


def same(got, want):
    if got != want:
        raise AssertionError(f"{got!r} is not {want!r}")
