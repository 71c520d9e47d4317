"""Calls that a rule refuses, made through Python: what the generator makes of the expressions of the table (_cases.py).

A machine (product, form, strictness) needs a process of its own, so this file is also the program that runs there. An argument is NULL, a number,
self (this process), unmade (a handle that nothing has), room (for results), device or pinned (4 KiB), an object of MAKERS, one that
was destroyed ("stream.dead"), or memory with arguments in it: "memory 8:4:7" has 7 in four bytes at offset 8.
"""

import collections
import ctypes
import importlib
import os
import subprocess
import sys
import threading
import unittest

import acl
from _cases import CALLS
from acl import rt
from support import HANG

HANDLE_OF_NOTHING = 0x123456789


def machine_of(call):
    return call[5:8]


def environment(machine):
    product, form, strict = machine
    chosen = {"ROPEWAY_PRODUCT": product, "ROPEWAY_STRICT": str(int(strict)), "ROPEWAY_DEVICES": "4", "ROPEWAY_DEVICE_MEMORY": "256M"}
    return {**chosen, "ROPEWAY_FORM": form, "ROPEWAY_DRIVER": "soft"} if form else chosen


class TestCases(unittest.TestCase):
    def test_each_machine(self):
        package = os.path.dirname(os.path.dirname(os.path.abspath(acl.__file__)))
        path = os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH")]))
        clean = {name: value for name, value in os.environ.items() if name not in ("ROPEWAY_PRODUCT", "ROPEWAY_FORM", "ROPEWAY_STRICT")}
        wanted = collections.Counter(map(machine_of, CALLS))
        self.assertGreater(sum(wanted.values()), 100)
        for machine, count in wanted.items():
            with self.subTest(machine):
                ended = subprocess.run(
                    [sys.executable, os.path.abspath(__file__), *map(str, machine)],
                    env={**clean, "PYTHONPATH": path, **environment(machine)},
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    universal_newlines=True,
                    timeout=HANG,
                )
                self.assertEqual((0, f"{count} calls\n"), (ended.returncode, ended.stdout), ended.stderr)


def ok(result):
    *values, code = result if isinstance(result, tuple) else (result,)
    if code != 0:
        raise AssertionError(f"{code}: {acl.get_recent_err_msg()}")
    return values[0] if values else None


def _beside(make):
    """What a function makes that changes the current context."""
    home = ok(rt.get_context())
    thing = make()
    ok(rt.set_context(home))
    return thing


def _elsewhere():
    ok(rt.create_context(0))
    return ok(rt.create_stream())


def _captured():
    stream = ok(rt.create_stream())
    ok(rt.mdl_ri_capture_begin(stream, acl.ACL_MODEL_RI_CAPTURE_MODE_RELAXED))
    return stream


def _captured_elsewhere():
    ok(rt.create_context(0))
    return _captured()


def _model():
    stream = _captured()
    model = ok(rt.mdl_ri_capture_end(stream))
    ok(rt.destroy_stream(stream))
    return model


_OPEN = {}  # the streams whose captures have what _open makes


def _open(make=lambda model, stream: model):
    stream = _captured()
    _, model, code = rt.mdl_ri_capture_get_info(stream)
    ok(code)
    thing = make(model, stream)
    _OPEN[thing] = stream
    return thing


def _condition(model, _):
    return ok(rt.mdl_ri_cond_handle_create(model, 0, 0))


def _sub(model, stream):
    return ok(rt.mdl_ri_add_cond_task(_condition(model, stream), acl.ACL_MODEL_RI_COND_TYPE_IF, 1, stream, 0))[0]


def _bound():
    stream = ok(rt.create_stream_with_config(0, acl.ACL_STREAM_PERSISTENT))
    ok(rt.mdl_ri_bind_stream(ok(rt.mdl_ri_build_begin(0)), stream, 0))
    return stream


def _bound_elsewhere():
    ok(rt.create_context(0))
    return _bound()


def _end_open(thing):
    return _end_stream(_OPEN.pop(thing))


def _end_model(model):
    return _end_open(model) if model in _OPEN else rt.mdl_ri_destroy(model)


def _event_captured():
    event = ok(rt.create_event_ex_with_flag(acl.ACL_EVENT_SYNC | acl.ACL_EVENT_TIME_LINE))
    ok(rt.record_event(event, _captured()))
    return event


def _end_stream(stream):
    """Destroys a stream that may be captured."""
    model, code = rt.mdl_ri_capture_end(stream)
    if code == 0:
        ok(rt.mdl_ri_destroy(model))
    return rt.destroy_stream_force(stream)


def _recorded():
    event = ok(rt.create_event_with_flag(9))
    ok(rt.record_event(event, 0))
    ok(rt.synchronize_stream(0))
    return event


# How each object is made and, by the first word, destroyed. A stream elsewhere goes with its context.
MAKERS = {
    "stream": lambda: ok(rt.create_stream()),
    "stream.elsewhere": lambda: _beside(_elsewhere),
    "stream.unwaited": lambda: ok(rt.create_stream_with_config(0, acl.ACL_STREAM_PERSISTENT)),
    "stream.captured": _captured,
    "stream.captured.elsewhere": lambda: _beside(_captured_elsewhere),
    "stream.bound": _bound,
    "stream.bound.elsewhere": lambda: _beside(_bound_elsewhere),
    "label": lambda: ok(rt.create_label()),
    "model.built": lambda: ok(rt.mdl_ri_build_begin(0)),
    "model": _model,
    "model.captured": _open,
    "model.sub": lambda: _open(_sub),
    "condition": lambda: _open(_condition),
    "event": lambda: ok(rt.create_event_with_flag(9)),
    "event.deviceOnly": lambda: ok(rt.create_event_with_flag(acl.ACL_EVENT_DEVICE_USE_ONLY)),
    "event.external": lambda: ok(rt.create_event_with_flag(acl.ACL_EVENT_EXTERNAL)),
    "event.unwaitable": lambda: ok(rt.create_event_with_flag(acl.ACL_EVENT_TIME_LINE)),
    "event.ipc": lambda: ok(rt.create_event_ex_with_flag(acl.ACL_EVENT_IPC)),
    "event.ex": lambda: ok(rt.create_event_ex_with_flag(acl.ACL_EVENT_SYNC)),
    "event.captured": _event_captured,
    "event.recorded": _recorded,
    "context": lambda: _beside(lambda: ok(rt.create_context(0))),
    "notify": lambda: ok(rt.create_notify(0)),
    "cntNotify": lambda: ok(rt.cnt_notify_create(0)),
    "device": lambda: ok(rt.malloc(4096, 0)),
    "pinned": lambda: ok(rt.malloc_host(4096)),
}
DESTROYERS = {
    "context": rt.destroy_context,
    "stream": _end_stream,
    "model": _end_model,
    "condition": _end_open,
    "label": rt.destroy_label,
    "event": rt.destroy_event,
    "notify": rt.destroy_notify,
    "cntNotify": rt.cnt_notify_destroy,
    "device": rt.free,
    "pinned": rt.free_host,
}


class Arguments:
    """What the arguments of one call stand for."""

    def __init__(self):
        self.made, self.pages = [], []

    def value(self, text):
        word, *fields = text.split(" ")
        name, _, kind = word.partition(".")
        if word.lstrip("-").isdigit():
            return int(word)
        if word in ("NULL", "self", "unmade"):
            return {"NULL": 0, "self": os.getpid(), "unmade": HANDLE_OF_NOTHING}[word]
        if word in ("room", "memory"):
            return self._memory(fields)
        thing = MAKERS[name if kind == "dead" else word]()
        if kind == "dead":
            ok(DESTROYERS[name](thing))
        elif not kind.endswith("elsewhere"):
            self.made.append((DESTROYERS[name], thing))
        return thing

    def _memory(self, fields):
        page = ctypes.create_string_buffer(4096)
        self.pages.append(page)
        for field in fields:
            at, size, text = field.split(":", 2)
            page[int(at) : int(at) + int(size)] = (self.value(text) & (1 << 8 * int(size)) - 1).to_bytes(int(size), "little")
        return ctypes.addressof(page)

    def drop(self):
        for destroy, thing in self.made:
            destroy(thing)  # unless the call did


def problem_of(call, arguments):
    """Makes the call and returns what is wrong with how it ended, or None."""
    path, function, rule, code, quiet = call[:5]
    module, name = path.rsplit(".", 1)
    form = getattr(importlib.import_module(module), name)
    acl.get_recent_err_msg()
    rt.get_last_error(0)  # also the one that the question for the message left
    result = form(*arguments)
    got = result[-1] if isinstance(result, tuple) else result
    last, message = rt.peek_at_last_error(0), acl.get_recent_err_msg() or ""
    left = code if code // 1000 in (107, 207, 507) and not quiet else 0
    if (got, last) != (code, left) or code and function not in message:
        return f"{path} {rule} {call[9]}: {got}, last error {last}; want {code} and {left}; {message}"
    return None


def main(product, form, strict):
    ok(rt.set_device(0))
    count, problems = 0, []
    for call in CALLS:
        if machine_of(call) != (product, form, strict == "True"):
            continue
        count += 1
        made = Arguments()
        arguments = [made.value(text) for text in call[9]]
        if call[8]:
            problems.append(problem_of(call, arguments))
        else:
            stranger = threading.Thread(target=lambda: problems.append(problem_of(call, arguments)))
            stranger.start()
            stranger.join()
        made.drop()
    problems = [p for p in problems if p]
    print("\n".join(problems[:20]), file=sys.stderr)
    print(f"{count} calls")
    sys.exit(bool(problems))


if __name__ == "__main__":
    if len(sys.argv) == 4:
        main(*sys.argv[1:])
    unittest.main()
