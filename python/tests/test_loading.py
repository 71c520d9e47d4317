"""How the module finds its library, and what it says when it does not."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

import acl

PACKAGE = os.path.dirname(acl.__file__)


def imports(path, **environment):
    """What comes of 'import acl' from a directory, in a Python of its own: the last line of its output."""
    env = {name: value for name, value in os.environ.items() if name not in ("LD_LIBRARY_PATH", "ROPEWAY_PYTHON")}
    done = subprocess.run(
        [sys.executable, "-c", "import acl; print(acl._library.implementation, acl.rt.get_device_count()[1])"],
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

    def extension(self):
        return os.path.join(self.package, "_fast.abi3.so")

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
                self.assertRegex(imports(self.path), "^(extension|ctypes) 0$")
                shutil.rmtree(os.path.join(self.directory, *place))

    def test_which_implementation(self):
        self.put_library("lib64")
        self.assertEqual("ctypes 0", imports(self.path, ROPEWAY_PYTHON="ctypes"))
        self.assertEqual(
            "ImportError: ROPEWAY_PYTHON is 'c'; it may be 'extension', 'ctypes' or empty", imports(self.path, ROPEWAY_PYTHON="c")
        )
        if os.path.exists(self.extension()):
            self.assertEqual("extension 0", imports(self.path))
            os.remove(self.extension())
        self.assertEqual("ctypes 0", imports(self.path))
        self.assertIn("there is none", imports(self.path, ROPEWAY_PYTHON="extension"))

    def test_an_extension_of_another_version(self):
        self.put_library("lib64")
        if not os.path.exists(self.extension()):
            self.skipTest("there is no extension")
        forms = os.path.join(self.package, "_forms.py")
        with open(forms) as f:
            text = f.read()
        with open(forms, "w") as f:
            f.write(text.replace("TABLE = 0x", "TABLE = 1 + 0x"))
        self.assertEqual("ImportError: acl._fast was built from another version; run 'make dist' again", imports(self.path))
