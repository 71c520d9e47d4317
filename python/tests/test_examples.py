"""The programs of examples/python: what they print, and that they notice when bytes do not arrive."""

import os
import re
import subprocess
import sys
import tempfile
import threading
import unittest

import acl
from support import HANG, need_numpy

EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples", "python")

PRINTED = {
    "async_copy": [
        "Two copies are queued: 1048576 bytes to the device, and back.",
        "Meanwhile the host added up the bytes: 133693440.",
        "Every byte came back.",
    ],
    "batch": [
        "16 pages of 4096 bytes were copied with one call, each to its own place.",
        "Their order on the device: ahofmdkbipgnelcj",
        "A page in the wrong kind of memory is refused, with its number: 5.",
    ],
    "graph": ["The step ran 100 times, and every result is right."],
    "descriptor": [
        "The descriptor names red: 4096 bytes of the target are red.",
        "The stream rewrote the descriptor: the same call copied blue.",
    ],
    "callback_thread": ["The report thread checked all 5 rounds, byte by byte."],
    "share": [
        "The second process read the 2097152 bytes that the first had written.",
        "It changed every byte, and the first process sees the change.",
    ],
    "vector_add": ["Two copies, a kernel of 8 blocks and a copy back are queued.", "All 65536 sums are right."],
    "numpy_round_trip": [
        "640 x 480 numbers were copied to the device, within it, and back: all are equal.",
        "Copied again from pinned memory, asynchronously, they came back negative.",
    ],
}

# A copy that does nothing and says it did, like a mock, and the programs that use it.
IDLE = {
    "memcpy_async": ("0", ["async_copy", "batch", "descriptor", "callback_thread", "numpy_round_trip", "vector_add"]),
    "memcpy_batch_async": ("(2**64 - 1, 0)", ["batch"]),
    "memcpy_async_with_desc": ("0", ["descriptor"]),
    "launch_kernel_with_host_args": ("0", ["vector_add"]),
    "memset_async": ("0", ["callback_thread"]),
    "launch_callback": ("0", ["callback_thread"]),
    "memcpy": ("0", ["async_copy", "numpy_round_trip"]),
}


def run(*command, **environment):
    """Runs Python with this acl."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(acl.__file__)))
    return subprocess.run(
        [sys.executable, "-B", *command],
        env={**os.environ, "PYTHONPATH": package, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        universal_newlines=True,
        timeout=HANG,
    )


def example(name):
    if name in ("numpy_round_trip", "vector_add"):
        need_numpy()
    if name == "vector_add" and os.environ.get("ROPEWAY_DRIVER", "soft") != "soft":
        raise unittest.SkipTest("only the software device runs Python functions as kernels")
    if name == "share" and os.environ.get("ROPEWAY_DRIVER", "soft") != "soft":
        raise unittest.SkipTest("only the software device shares memory between processes")
    return os.path.join(EXAMPLES, name + ".py")


class TestExamples(unittest.TestCase):
    def test_what_they_print(self):
        """With launch blocking, too, which must change nothing that a program can see."""
        for name, lines in PRINTED.items():
            for environment in ({}, {"ASCEND_LAUNCH_BLOCKING": "1"}):
                with self.subTest(name, **environment):
                    done = run(example(name), **environment)
                    self.assertEqual((0, "", lines), (done.returncode, done.stderr, done.stdout.splitlines()))

    def test_all_are_tested(self):
        programs = {name[:-3] for name in os.listdir(EXAMPLES) if name.endswith(".py")}
        self.assertEqual(programs, {*PRINTED, "check", "two_servers"})

    def test_two_servers(self):
        """Two servers of a pod."""
        with tempfile.TemporaryDirectory() as folder:
            key, pod = os.path.join(folder, "key"), os.path.join(folder, "pod.yaml")
            with open(os.open(key, os.O_WRONLY | os.O_CREAT, 0o600), "w") as f:
                f.write("k" * 32)
            with open(pod, "w") as f:
                f.write("key: key\nservers:\n- {id: 0, address: 127.0.0.1}\n- {id: 1, address: 127.0.0.1}\n")
            common = {"ROPEWAY_POD": pod, "ROPEWAY_PRODUCT": "A3", "ROPEWAY_DRIVER": "soft"}
            done = [None, None]

            def server(i):
                done[i] = run(example("two_servers"), os.path.join(folder, "handle"), ROPEWAY_POD_SERVER=str(i), **common)

            threads = [threading.Thread(target=server, args=(i,)) for i in range(2)]
            for t in threads:
                t.start()
            for t in threads:
                t.join()
            lines = ["It changed every byte, and server 0 sees the change.", "Server 1 read the 4194304 bytes of server 0."]
            for d, line in zip(done, lines):
                self.assertEqual((0, "", [line]), (d.returncode, d.stderr, d.stdout.splitlines()))

    def test_the_document_on_every_product(self):
        for product in ("A2", "A3", "950", "310B", "310P", "310", "910"):
            with self.subTest(product):
                done = run(example("async_copy"), ROPEWAY_PRODUCT=product)
                self.assertEqual((0, PRINTED["async_copy"]), (done.returncode, done.stdout.splitlines()), done.stderr)

    def test_a_call_that_fails(self):
        """The program ends with 1 and says where, with which code and why."""
        done = run(example("batch"), ROPEWAY_PRODUCT="310P")
        self.assertEqual(1, done.returncode)
        for part in ("batch.py", "memcpy_batch_async", "error 207000", "310P has no batch copies"):
            self.assertIn(part, done.stderr)

    def test_bytes_that_do_not_arrive(self):
        program = "import runpy, sys, acl; sys.path.insert(0, {!r}); acl.rt.{} = lambda *_: {}; runpy.run_path({!r}, run_name='__main__')"
        for function, (result, names) in IDLE.items():
            for name in names:
                with self.subTest(name, idle=function):
                    done = run("-c", program.format(EXAMPLES, function, result, example(name)))
                    self.assertEqual(1, done.returncode, done.stdout)
                    self.assertRegex(done.stderr, "^wrong: ")

    def test_their_constants(self):
        """The numbers they write down are those of the headers."""
        found = 0
        for name in PRINTED:
            with open(os.path.join(EXAMPLES, name + ".py"), encoding="utf-8") as file:
                for constant, number in re.findall(r"^(ACL_\w+) = (\d+)", file.read(), re.MULTILINE):
                    found += 1
                    self.assertEqual(getattr(acl, constant), int(number), f"{constant} in {name}")
        self.assertGreater(found, 15)


if __name__ == "__main__":
    unittest.main()
