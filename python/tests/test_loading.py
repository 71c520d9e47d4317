"""How the module finds its library, and what it says when it does not."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import unittest

import acl
from support import missing, need_compiler

PACKAGE = os.path.dirname(acl.__file__)
REPOSITORY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")


def imports(path, **environment):
    """What comes of 'import acl' from a directory, in a Python of its own: the last line of its output."""
    env = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}
    done = subprocess.run(
        [sys.executable, "-c", "import acl; print('imported', acl.rt.get_device_count()[1])"],
        env={**env, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        universal_newlines=True,
        timeout=300,
    )
    return done.stdout.strip().splitlines()[-1]


class TestLoading(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.directory)
        self.package = os.path.join(self.directory, "python", "site-packages", "acl")
        shutil.copytree(PACKAGE, self.package, ignore=shutil.ignore_patterns("lib64", "bin", "__pycache__"))
        self.path = os.path.dirname(self.package)

    def put_library(self, *place):
        os.makedirs(os.path.dirname(os.path.join(self.directory, *place)), exist_ok=True)
        source = os.path.dirname(os.path.realpath(acl._library.library._name))
        shutil.copytree(source, os.path.join(self.directory, *place))

    def test_no_library(self):
        said = imports(self.path)
        self.assertTrue(said.startswith("ImportError: acl cannot load libascendcl.so"), said)
        for part in (os.path.join(self.package, "lib64"), os.path.join(self.directory, "lib64"), "make dist", "set_env.sh", "ropeway run"):
            self.assertIn(part, said)

    def test_a_library_that_is_none(self):
        os.makedirs(os.path.join(self.directory, "lib64"))
        with open(os.path.join(self.directory, "lib64", "libascendcl.so"), "w") as f:
            f.write("not a library")
        said = imports(self.path)
        self.assertIn("ImportError: acl cannot load libascendcl.so", said)
        self.assertIn("make dist", said)

    def test_in_a_toolkit_and_in_the_package(self):
        for place in (("lib64",), ("ropeway", "lib64"), ("python", "site-packages", "acl", "lib64")):
            with self.subTest(place):
                self.put_library(*place)
                self.assertEqual("imported 0", imports(self.path))
                shutil.rmtree(os.path.join(self.directory, *place))

    def test_no_extension(self):
        """The ImportError names the Python, and what to do."""
        self.put_library("lib64")
        os.remove(os.path.join(self.package, "_fast.abi3.so"))
        said = imports(self.path)
        self.assertTrue(said.startswith("ImportError: acl cannot load its extension, _fast.abi3.so ("), said)
        for part in ("CPython 3.9", f"{sys.implementation.name} {sys.version_info[0]}.{sys.version_info[1]}", "wheel", "make dist"):
            self.assertIn(part, said)

    def test_an_extension_of_another_version(self):
        self.put_library("lib64")
        forms = os.path.join(self.package, "_forms.py")
        with open(forms) as f:
            text = f.read()
        with open(forms, "w") as f:
            f.write(text.replace("TABLE = 0x", "TABLE = 1 + 0x"))
        self.assertEqual("ImportError: acl._fast was built from another version; run 'make dist' again", imports(self.path))


class TestHeader(unittest.TestCase):
    """_python.h declares what the headers of this Python declare."""

    STRUCTS = {
        "PyObject": ("ob_refcnt", "ob_type"),
        "PyMethodDef": ("ml_name", "ml_meth", "ml_flags", "ml_doc"),
        "PyModuleDef": ("m_base", "m_name", "m_doc", "m_size", "m_methods", "m_slots", "m_traverse", "m_clear", "m_free"),
    }
    NUMBERS = ("METH_VARARGS", "METH_NOARGS", "METH_O")

    def test_against_the_headers_of_python(self):
        header = os.path.join(REPOSITORY, "python", "acl", "_python.h")
        if not os.path.exists(header):
            self.skipTest("not in the repository")
        include = sysconfig.get_path("include")
        if not os.path.exists(os.path.join(include, "Python.h")):
            missing("Python.h (Debian: apt-get install python3-dev)")
        with open(header, encoding="utf-8") as file:
            text = re.sub(r"/\*.*?\*/", "", file.read(), flags=re.DOTALL)
        # Declared twice, a function that differs is an error. Python has other types for None, True and False.
        declared = [line for line in re.findall(r"^extern [^;]*;", text, re.MULTILINE) if "_Py_NoneStruct" not in line]
        self.assertGreater(len(declared), 30)
        mine = self.answer(include, f'#include "{header}"')
        theirs = self.answer(include, "#define Py_LIMITED_API 0x03090000\n#include <Python.h>", *declared)
        self.assertEqual(theirs, mine)

    def answer(self, include, *head):
        """What a program prints of the structs and the numbers."""
        source = [*head, "#include <stdio.h>", "#include <stddef.h>", "int main(void) {"]
        for name, members in self.STRUCTS.items():
            source.append(f'printf("{name} %zu\\n", sizeof({name}));')
            source += [f'printf("{name}.{member} %zu\\n", offsetof({name}, {member}));' for member in members]
        source += [f'printf("{name} %d\\n", {name});' for name in self.NUMBERS]
        source.append("return 0; }")
        with tempfile.TemporaryDirectory() as folder:
            program = os.path.join(folder, "program")
            command = [need_compiler(), "-w", "-I", include, "-x", "c", "-", "-o", program]
            made = subprocess.run(command, input="\n".join(source), stderr=subprocess.PIPE, universal_newlines=True)
            self.assertEqual((0, ""), (made.returncode, made.stderr))
            return subprocess.run([program], stdout=subprocess.PIPE, check=True).stdout.decode().splitlines()
