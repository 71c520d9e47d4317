"""The wheel: what is in it, and that it works where nothing else of the toolkit is."""

import base64
import csv
import hashlib
import importlib.util
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

import acl
from support import HANG, missing

REPOSITORY = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
BACKEND = os.path.join(REPOSITORY, "python", "backend.py")
PACKAGE = os.path.dirname(os.path.abspath(acl.__file__))
TOOLKIT = os.path.normpath(os.path.join(PACKAGE, "..", "..", ".."))

SMOKE = """
import acl
assert acl.init() == 0 and acl.rt.set_device(0) == 0
device, ret = acl.rt.malloc(64, acl.ACL_MEM_MALLOC_HUGE_FIRST)
host, ret = acl.rt.malloc_host(64)
cargo = bytes(range(64))
assert acl.rt.memcpy(device, 64, acl.util.bytes_to_ptr(cargo), 64, acl.ACL_MEMCPY_HOST_TO_DEVICE) == 0
assert acl.rt.memcpy(host, 64, device, 64, acl.ACL_MEMCPY_DEVICE_TO_HOST) == 0
assert acl.util.ptr_to_bytes(host, 64) == cargo
with open("/proc/self/maps") as maps:
    libraries = {line.split()[-1] for line in maps if "libascendcl" in line or "ropeway_core" in line or "_fast" in line}
print(acl.__file__, *sorted(libraries), sep="\\n")
"""


def load_backend():
    spec = importlib.util.spec_from_file_location("ropeway_backend", BACKEND)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(*command, cwd, **environment):
    """Runs a command that has to succeed, with no variable of a toolkit set, and returns what it printed."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR", "LANG") if name in os.environ}
    done = subprocess.run(
        command,
        cwd=cwd,
        env={**kept, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        universal_newlines=True,
        timeout=HANG,
    )
    if done.returncode:
        raise AssertionError(f"{' '.join(command)} ends with {done.returncode}\n{done.stdout}")
    return done.stdout


class WheelCase(unittest.TestCase):
    """A test with a wheel of the toolkit that acl comes from."""

    @classmethod
    def setUpClass(cls):
        if not os.path.exists(os.path.join(TOOLKIT, "lib64", "libascendcl.so")):
            raise unittest.SkipTest("acl is not part of a toolkit")
        cls.directory = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, cls.directory)
        said = run(sys.executable, "-B", BACKEND, "wheel", "--toolkit", TOOLKIT, "--out", os.path.join(cls.directory, "out"), cwd="/")
        cls.wheel = said.strip()


class TestWheel(WheelCase):
    def test_its_name(self):
        """The tag names the extension's ABI, the processor, and the glibc that the libraries ask for."""
        tag = "cp39-abi3" if os.path.exists(os.path.join(PACKAGE, "_fast.abi3.so")) else "py3-none"
        self.assertRegex(
            os.path.basename(self.wheel), rf"^ropeway-[0-9.]+-{tag}-manylinux_2_\d+_{os.uname().machine}\.whl$"
        )
        needed = 0
        for name in ("libascendcl.so", "libropeway_core.so", "libropeway_check.so"):
            with open(os.path.join(TOOLKIT, "lib64", name), "rb") as file:
                needed = max([needed, *map(int, re.findall(rb"GLIBC_2\.(\d+)", file.read()))])
        self.assertIn(f"-manylinux_2_{needed}_", self.wheel)

    def test_its_record(self):
        """RECORD has each file with its hash and size, and nothing else; installers check that."""
        with zipfile.ZipFile(self.wheel) as wheel:
            self.assertIsNone(wheel.testzip())
            (record,) = [name for name in wheel.namelist() if name.endswith(".dist-info/RECORD")]
            rows = list(csv.reader(io.StringIO(wheel.read(record).decode())))
            self.assertEqual(sorted(wheel.namelist()), sorted(path for path, _, _ in rows))
            for path, digest, size in rows:
                if path == record:
                    self.assertEqual(("", ""), (digest, size))
                    continue
                content = wheel.read(path)
                expected = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
                self.assertEqual((f"sha256={expected}", str(len(content))), (digest, size), path)

    def test_what_is_in_it(self):
        with zipfile.ZipFile(self.wheel) as wheel:
            names = set(wheel.namelist())
            inside = {name[4:] for name in names if name.startswith("acl/") and name.count("/") == 1}
            package = {name for name in os.listdir(PACKAGE) if os.path.isfile(os.path.join(PACKAGE, name))}
            self.assertEqual(package, inside)
            libraries = {f"acl/lib64/{name}" for name in ("libascendcl.so", "libropeway_core.so", "libropeway_check.so")}
            self.assertLessEqual({*libraries, "acl/bin/ropeway", "ropeway_jupyter.py", "ropeway_pytest.py"}, names)
            (path,) = [name for name in names if name.endswith("/entry_points.txt")]
            self.assertEqual("[pytest11]\nropeway = ropeway_pytest\n", wheel.read(path).decode())
            (path,) = [name for name in names if name.endswith("/METADATA")]
            metadata = wheel.read(path).decode()
        for line in ("Name: ropeway", "Requires-Python: >=3.9", "License: Apache-2.0", "Author: The ropeway authors"):
            self.assertIn(f"\n{line}\n", metadata)

    def test_owner(self):
        owner = load_backend().owner
        self.assertEqual([], owner("# url: (the home page)\n# contact: [{name: (of a person), email: (where)}]\n"))
        filled = "authors:\n  - name: A B\nurl: https://a\nrepository-code: https://b\ncontact: [{name: C, email: c@d}]\n"
        pages = [("Project-URL", "Homepage, https://a"), ("Project-URL", "Repository, https://b")]
        self.assertEqual([("Author", "A B"), ("Maintainer-email", "C <c@d>"), *pages], owner(filled))

    def test_the_same_again(self):
        again = os.path.join(self.directory, "again")
        load_backend().write_wheel(TOOLKIT, again)
        with open(self.wheel, "rb") as one, open(os.path.join(again, os.path.basename(self.wheel)), "rb") as other:
            self.assertEqual(one.read(), other.read())
        self.assertEqual(os.listdir(again), [os.path.basename(self.wheel)], "something is left over")


class TestInstalled(WheelCase):
    def test_unpacked_into_an_environment(self):
        """No pip is needed: a wheel is unpacked. Nothing of the toolkit is in the environment, and none of it is loaded."""
        home = os.path.join(self.directory, "env")
        run(sys.executable, "-m", "venv", "--without-pip", home, cwd=self.directory)
        python = os.path.join(home, "bin", "python")
        place = run(python, "-c", "import sysconfig; print(sysconfig.get_path('platlib'))", cwd="/").strip()
        with zipfile.ZipFile(self.wheel) as wheel:
            wheel.extractall(place)
        self.check(place, python)

        # A toolkit that is in the environment, too, is not mixed with it.
        self.check(place, python, LD_LIBRARY_PATH=os.path.join(TOOLKIT, "lib64"))

    def test_installed_by_pip(self):
        """The file, and the directory by way of the build backend; without an index both times."""
        if importlib.util.find_spec("pip") is None:
            missing("pip")
        for name, what in (("file", self.wheel), ("source", os.path.join(REPOSITORY, "python"))):
            with self.subTest(name):
                place = os.path.join(self.directory, name)
                flags = ["--no-index", "--no-cache-dir", "--disable-pip-version-check", "--target", place]
                run(sys.executable, "-m", "pip", "install", *flags, what, cwd=self.directory, ROPEWAY_DIST=TOOLKIT)
                self.check(place, sys.executable, PYTHONPATH=place)
                self.check_command(place)

    def check_command(self, place):
        """The wheel brings the command: it is of the wheel's version, and runs a program on the wheel's libraries."""
        command = [sys.executable, os.path.join(place, "bin", "ropeway")]
        with open(os.path.join(REPOSITORY, "VERSION")) as file:
            self.assertEqual(f"ropeway {file.read()}", run(*command, "--version", cwd="/", PYTHONPATH=place))
        elsewhere = tempfile.mkdtemp(dir=self.directory)
        said = run(*command, "run", "--product", "A3", sys.executable, "-c", SMOKE, cwd=elsewhere, PYTHONPATH=place)
        for path in said.splitlines():
            self.assertTrue(os.path.realpath(path).startswith(os.path.realpath(place) + os.sep), f"{path} is not in {place}")

    def check(self, place, python, **environment):
        """Runs the program from a directory that has nothing in it; all that it loads must lie in this place."""
        elsewhere = tempfile.mkdtemp(dir=self.directory)
        said = run(python, "-c", SMOKE, cwd=elsewhere, **environment).splitlines()
        place = os.path.realpath(os.path.join(place, "acl"))
        self.assertGreaterEqual(len(said), 4, said)
        for path in said:
            self.assertTrue(os.path.realpath(path).startswith(place + os.sep), f"{path} is not in {place}")


class TestBackend(unittest.TestCase):
    def test_no_toolkit(self):
        with tempfile.TemporaryDirectory() as empty:
            with self.assertRaisesRegex(SystemExit, "libascendcl.so: write the toolkit with 'make dist' first"):
                load_backend().write_wheel(empty, empty)
            self.assertEqual([], os.listdir(empty))

    def test_no_source_distribution(self):
        backend = load_backend()
        with self.assertRaisesRegex(backend.UnsupportedOperation, "make dist"):
            backend.build_sdist(".")

    def test_tags(self):
        """Of other toolkits: for arm64, for an older glibc, for no glibc."""
        tag_of = load_backend().tag_of
        x86, arm = (b"\x7fELF" + bytes(14) + bytes([number, 0]) for number in (62, 183))
        library, extension = "acl/lib64/libascendcl.so", "acl/_fast.abi3.so"
        self.assertEqual("cp39-abi3-manylinux_2_34_aarch64", tag_of({library: arm + b"GLIBC_2.34\0", extension: arm + b"GLIBC_2.17\0"}))
        self.assertEqual("cp39-abi3-manylinux_2_18_x86_64", tag_of({library: x86 + b"GLIBC_2.18\0GLIBC_2.2.5\0"}))
        self.assertEqual("cp39-abi3-linux_x86_64", tag_of({library: x86}))
        with self.assertRaisesRegex(SystemExit, "not all for"):
            tag_of({library: x86, extension: arm})


if __name__ == "__main__":
    unittest.main()
