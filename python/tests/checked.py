"""Programs that run under the checker, and what it found in them."""

import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

import acl
from support import HANG, missing

PACKAGE = os.path.dirname(os.path.abspath(acl.__file__))
CHECKER = os.path.join(os.path.dirname(os.path.realpath(acl._library.library._name)), "libropeway_check.so")

# What every program begins with: a device, a stream, 4096 bytes of pinned and of device memory.
BEGINNING = """\
import ctypes, json, sys, threading
import acl
from acl import rt
H2D, D2H, SIZE = 1, 2, 4096
def ok(result):
    *values, ret = result if isinstance(result, tuple) else (result,)
    assert ret == 0, acl.get_recent_err_msg()
    return values[0] if values else None
ok(acl.init())
ok(rt.set_device(0))
stream = ok(rt.create_stream())
host = ok(rt.malloc_host(SIZE))
ctypes.memset(host, 7, SIZE)
device = ok(rt.malloc(SIZE, 0))
ok(rt.memcpy(device, SIZE, host, SIZE, H2D))
"""

# And ends with. What was found is printed on a line of its own.
END = """
ok(rt.synchronize_stream(stream))
print("found " + json.dumps(acl._checking.findings()))
ok(rt.free(device)), ok(rt.free_host(host)), ok(rt.destroy_stream(stream)), ok(rt.reset_device(0)), ok(acl.finalize())
"""


class Program:
    """A program in a file. A comment at the end of a line, as in "# submit", is the name of that line."""

    def __init__(self, directory, body):
        self.path = os.path.join(directory, "program.py")
        self.text = BEGINNING + body + END
        with open(self.path, "w") as file:
            file.write(self.text)

    def line(self, name):
        (line,) = [i for i, text in enumerate(self.text.splitlines(), 1) if text.endswith(f"# {name}")]
        return line

    def function(self, name):
        """The function that the line of that name is in."""
        lines = self.text.splitlines()[: self.line(name)]
        if not lines[-1].startswith(" "):
            return "<module>"
        return [re.match(r"def (\w+)", line).group(1) for line in lines if line.startswith("def ")][-1]


class CheckedCase(unittest.TestCase):
    def setUp(self):
        if not os.path.exists(CHECKER):
            missing(CHECKER)
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = directory.name

    def environment(self, preload=True, **more):
        """That of a checked process, with this acl."""
        path = os.pathsep.join(filter(None, [os.path.dirname(PACKAGE), os.environ.get("PYTHONPATH")]))
        kept = {name: value for name, value in os.environ.items() if not name.startswith("ROPEWAY_CHECK")}
        loaded = {"LD_PRELOAD": CHECKER} if preload else {}
        return {**kept, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", "ROPEWAY_CHECK": "seed=1", **loaded, **more}

    def run_checked(self, *command, **environment):
        return subprocess.run(
            [sys.executable, *command],
            cwd=self.directory,
            env=self.environment(**environment),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            universal_newlines=True,
            timeout=HANG,
        )

    def findings(self, program, **environment):
        """What the checker finds in a program, which must succeed."""
        done = self.run_checked(program.path, **environment)
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)
        (line,) = [line for line in done.stdout.splitlines() if line.startswith("found ")]
        return json.loads(line[6:])

    def assert_found(self, program, rule, **environment):
        """One finding by this rule, with the lines named "submit" and "access" of the program; returns it."""
        found = self.findings(program, **environment)
        self.assertEqual([rule], [finding["rule"] for finding in found], found)
        finding = found[0]
        self.assert_at(program, finding["offence"], "access")
        submits = [site for site in finding["others"] if site.get("call", "").startswith("acl.rt.memcpy")]
        self.assertTrue(submits, finding)
        self.assert_at(program, submits[0], "submit")
        return finding

    def assert_at(self, program, site, name):
        """The innermost frame of the program is the line of that name, in its function."""
        ours = [frame for frame in site["stack"] if frame.get("file") == program.path]
        self.assertTrue(ours, f"no Python frame: {site}")
        self.assertEqual((program.function(name), program.line(name)), (ours[0].get("function"), ours[0].get("line")), site)
        for frame in site["stack"]:
            self.assertNotIn(os.path.join(PACKAGE, ""), frame.get("file", ""), "a frame of acl itself")
