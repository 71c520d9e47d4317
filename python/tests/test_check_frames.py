"""What the checker learns about Python frames. A stand-in for it writes down what it gets."""

import os
import subprocess
import sys
import tempfile
import unittest

import acl
from support import HANG, need_compiler

SHIM = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "capi", "shim"))

STAND_IN = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "entry.h"

static struct { char *file, *function; } names[1 << 17];
static uint32_t count;
static void (*provider)(ropeway_call *);
static __thread ropeway_call mine, last;

/* The last thing done with the record of a call is to forget its frames. */
ropeway_call *ropeway_check_record(void)
{
	if (mine.named)
		last = mine;
	return &mine;
}

uint32_t ropeway_check_name_frame(const char *file, const char *function)
{
	names[++count].file = strdup(file);
	names[count].function = strdup(function);
	return count;
}

void ropeway_check_frames_by(void (*frames)(ropeway_call *)) { provider = frames; }
ropeway_entry ropeway_check_attach(ropeway_entry core) { return core; }
void ropeway_check_forked(const char *function) { (void)function; }
const char *ropeway_check_report(void) { return NULL; }
void ropeway_check_free(const char *report) { (void)report; }
uint32_t names_given(void) { return count; }

static void print_frames(const char *what, const ropeway_call *call)
{
	printf("%s:", what);
	for (uint32_t i = 0; i < call->named; i++) {
		const char *file = names[call->names[i].name].file, *base = strrchr(file, '/');
		uint32_t line = call->names[i].line;
		printf(" %s@%s:%u%s", names[call->names[i].name].function, base ? base + 1 : file, line & ~ROPEWAY_DROPPED,
		       line & ROPEWAY_DROPPED ? "!" : "");
	}
	printf("\n");
	fflush(stdout);
}

/* As for an access in the calling thread. */
void *touched(void *what)
{
	ropeway_call call;
	memset(&call, 0xee, sizeof call);
	call.named = 0;
	if (provider)
		provider(&call);
	print_frames(what, &call);
	return what;
}

void called(const char *what) { print_frames(what, &last); print_frames("now", &mine); }
"""

BEGINNING = """\
import ctypes, threading
import acl
freed, held = ctypes.CDLL("libropeway_check.so"), ctypes.PyDLL("libropeway_check.so")
"""


class TestFrames(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        compiler = need_compiler()
        if not os.path.exists(os.path.join(SHIM, "entry.h")):
            raise unittest.SkipTest("this is no clone of the repository")
        directory = tempfile.TemporaryDirectory()
        cls.addClassCleanup(directory.cleanup)
        cls.directory = directory.name
        source, cls.library = os.path.join(cls.directory, "s.c"), os.path.join(cls.directory, "libropeway_check.so")
        with open(source, "w") as file:
            file.write(STAND_IN)
        subprocess.run(
            [compiler, "-shared", "-fPIC", "-I", SHIM, "-Wl,-soname,libropeway_check.so", "-o", cls.library, source], check=True
        )

    def seen(self, body):
        """What a program reports, by its name: frames as they are written, without qualifications, innermost first."""
        return {what: [frame.rstrip("!") for frame in frames] for what, frames in self.seen_all(body).items()}

    def seen_all(self, body):
        """The same, with a mark at lines that drop what a call returns."""
        path = os.path.join(self.directory, "program.py")
        with open(path, "w") as file:
            file.write(BEGINNING + body)
        package = os.path.dirname(os.path.dirname(os.path.abspath(acl.__file__)))
        done = subprocess.run(
            [sys.executable, path],
            cwd=self.directory,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join([package, os.environ.get("PYTHONPATH", "")]),
                "ROPEWAY_CHECK": "1",
                "LD_PRELOAD": self.library,
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            universal_newlines=True,
            timeout=HANG,
        )
        self.assertEqual(0, done.returncode, done.stdout)
        lines = [line.partition(":") for line in done.stdout.splitlines() if ":" in line]
        return {what: [frame.rpartition(".<locals>.")[2] for frame in frames.split()] for what, _, frames in lines}

    def test_an_access(self):
        """Innermost first, with the lines of the calls, with the interpreter lock held or not."""
        seen = self.seen("""\
def inner(library):
    library.touched(b"held" if library is held else b"freed")
def outer(library):
    return (
        inner(library)
    )
outer(held)
outer(freed)
""")
        for what, line in (("held", 10), ("freed", 11)):
            frames = ["inner@program.py:5", "outer@program.py:8", f"<module>@program.py:{line}"]
            self.assertEqual(frames, seen[what])

    def test_what_is_dropped(self):
        """A call that is a statement drops its value; in every other place the program has it."""
        seen = self.seen_all("""\
def work():
    acl.rt.get_device_count(); freed.called(b"statement")
    kept = acl.rt.get_device_count(); freed.called(b"kept")
    assert acl.rt.get_device_count() != 5; freed.called(b"tested")
    return acl.rt.get_device_count()
work()
freed.called(b"returned")
""")
        marks = {what: seen[what][0].endswith("!") for what in ("statement", "kept", "tested", "returned")}
        self.assertEqual({"statement": True, "kept": False, "tested": False, "returned": False}, marks)
        self.assertFalse(any(frame.endswith("!") for frames in seen.values() for frame in frames[1:]))

    def test_a_call(self):
        """The frames are there during the call and gone after it; frames of acl are left out."""
        seen = self.seen("""\
def work():
    acl.rt.get_device_count()
work()
freed.called(b"plain")
def more():
    acl.rt.pointer_get_attributes(0)
more()
freed.called(b"special")
""")
        self.assertEqual(["work@program.py:5", "<module>@program.py:6"], seen["plain"])
        self.assertEqual(["more@program.py:9", "<module>@program.py:10"], seen["special"])
        self.assertEqual([], seen["now"])

    def test_threads(self):
        """A thread reports its own frames; one that has nothing to do with Python reports none."""
        seen = self.seen("""\
def look():
    freed.touched(b"python")
thread = threading.Thread(target=look)
thread.start()
thread.join()
number, libc = ctypes.c_ulong(), ctypes.CDLL(None)
libc.pthread_create(ctypes.byref(number), None, freed.touched, b"foreign")
libc.pthread_join(number, None)
""")
        self.assertEqual("look@program.py:5", seen["python"][0])
        self.assertNotIn("<module>", "".join(seen["python"]))
        self.assertEqual([], seen["foreign"])

    def test_each_function_is_named_once(self):
        seen = self.seen("""\
def same():
    acl.rt.get_device_count()
for _ in range(3):
    same()
before = freed.names_given()
for _ in range(1000):
    same()
assert freed.names_given() == before, (before, freed.names_given())
# Functions that are equal are not the same: their files differ.
for name in ("one", "two"):
    exec(compile("held.touched(b'" + name + "')", name + ".py", "exec"))
""")
        for name in ("one", "two"):
            self.assertEqual(f"<module>@{name}.py:1", seen[name][0])

    def test_deep_recursion_and_many_functions(self):
        """A record has room for 32 frames, and what is remembered of code has an end."""
        seen = self.seen("""\
def deep(n):
    return deep(n - 1) if n else held.touched(b"deep")
deep(100)
for i in range((1 << 16) + 100):
    exec(compile("acl.rt.get_device_count()", "many", "exec"))
held.touched(b"after")
""")
        self.assertEqual(["deep@program.py:5"] * 32, seen["deep"])
        self.assertEqual(["<module>@program.py:9"], seen["after"])

    def test_an_exception_stays(self):
        """An access can come while an exception is being handled, or from a function that is run because of one."""
        seen = self.seen("""\
class Last:
    def __del__(self):
        freed.touched(b"deleted")
def fails():
    last = Last()
    raise ValueError("kept")
try:
    fails()
except ValueError as error:
    assert str(error) == "kept"
    error.__traceback__ = None
    del error
held.touched(b"after")
""")
        self.assertEqual("after", list(seen)[-1])

    def test_the_end(self):
        """While the interpreter ends nobody waits for it: there are no frames any more."""
        seen = self.seen("""\
held.touched(b"before")
class Last:
    def __del__(self, touched=held.touched):
        touched(b"at the end")
last = Last()
""")
        self.assertEqual(["<module>@program.py:4"], seen["before"])
        self.assertEqual([], seen["at the end"])

    def test_what_runs_tests_is_left_out(self):
        """Around a test there is no frame of what runs it."""
        seen = self.seen("""\
for name, entry in (("around", "pytest_pyfunc_call"), ("between", "anything")):
    scope = {}
    exec(compile(f"def {entry}(f):\\n    f()", "/lib/_pytest/python.py", "exec"), scope)
    def test():
        held.touched(name.encode())
    scope[entry](test)
""")
        self.assertEqual(["test@program.py:8"], seen["around"])
        self.assertEqual(["test@program.py:8", "<module>@program.py:9"], seen["between"])


if __name__ == "__main__":
    unittest.main()
