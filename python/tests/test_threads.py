"""Threads, the interpreter lock, signals and processes."""

import os
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import weakref

from acl import rt, util
from support import D2H, H2D, HANG, DeviceCase, run_program


class TestThreads(DeviceCase):
    def test_a_thread_and_its_id(self):
        seen = []
        tid, ret = util.start_thread(lambda arguments: seen.append((arguments, threading.get_ident())), [1, "two"])
        self.assertEqual(0, ret)
        self.assertEqual(0, util.stop_thread(tid))
        self.assertEqual([([1, "two"], tid)], seen)

    def test_the_id_is_the_one_of_subscribe_report(self):
        """It is the pthread id that the runtime knows the thread by."""
        context, stream = self.ok(rt.get_context()), self.stream()
        subscribed, code = threading.Event(), []

        def report(arguments):
            rt.set_context(context)
            subscribed.wait(HANG)
            code.append(rt.process_report(1000))

        tid, _ = util.start_thread(report, None)
        self.ok(rt.subscribe_report(tid, stream))
        self.ok(rt.launch_callback(lambda _: None, None, 1, stream))
        subscribed.set()
        self.assertEqual(0, util.stop_thread(tid))
        self.assertEqual([0], code)

    def test_what_the_function_raised(self):
        def fail(arguments):
            raise KeyError(arguments)

        tid, _ = util.start_thread(fail, "lost")
        with self.assertRaisesRegex(RuntimeError, r"^acl\.util\.stop_thread: .*KeyError\('lost'\)") as caught:
            util.stop_thread(tid)
        self.assertIsInstance(caught.exception.__cause__, KeyError)
        self.assertEqual(100000, util.stop_thread(tid))

    def test_ids_that_are_used_again(self):
        """The system gives the id of a thread that has ended to the next one: each is stopped once, in order."""
        order, tids = [], []
        for i in range(5):
            tid, _ = util.start_thread(order.append, i)
            util._workers[tid][-1].join(HANG)
            tids.append(tid)
        self.assertEqual([0] * 5, [util.stop_thread(tid) for tid in tids])
        self.assertEqual([100000] * 5, [util.stop_thread(tid) for tid in tids])
        self.assertEqual({}, util._workers)

    def test_nothing_of_the_thread_is_kept(self):
        class Thing:
            pass

        thing = Thing()
        watch = weakref.ref(thing)
        tid, _ = util.start_thread(lambda arguments: None, thing)
        del thing
        util.stop_thread(tid)
        self.assertIsNone(watch())

    def test_wrong_arguments(self):
        with self.assertRaisesRegex(TypeError, r"^acl\.util\.start_thread: argument 1 \(fn\) must be callable, not int"):
            util.start_thread(5, None)
        with self.assertRaisesRegex(TypeError, r"^acl\.util\.stop_thread: argument 1 \(tid\) must be int, not str"):
            util.stop_thread("5")
        self.assertEqual(100000, util.stop_thread(0))
        self.assertEqual(100000, util.stop_thread(threading.get_ident()))
        started = threading.Event()
        tid, _ = util.start_thread(lambda arguments: started.wait(HANG) and util.stop_thread(threading.get_ident()), None)
        started.set()
        with self.assertRaisesRegex(RuntimeError, "cannot join current thread"):
            util.stop_thread(tid)


class TestInterpreterLock(DeviceCase):
    """The lock is released where a call may take long. Threads do not change by themselves here: only the thread that releases it is left."""

    def setUp(self):
        super().setUp()
        self.addCleanup(sys.setswitchinterval, sys.getswitchinterval())
        self.count, self.counting = 0, True
        counter = threading.Thread(target=self.run_counter, daemon=True)
        counter.start()
        self.addCleanup(counter.join, HANG)
        self.addCleanup(setattr, self, "counting", False)
        sys.setswitchinterval(1e6)

    def run_counter(self):
        while self.counting:
            self.count += 1
            time.sleep(0)

    def lets_others_run(self, call):
        """Another thread gets on during the call; if not at once, then in one of many."""
        end = time.monotonic() + HANG
        while time.monotonic() < end:
            before = self.count
            call()
            if self.count > before:
                return True
        return False

    def test_copies_and_fills(self):
        size = 64 << 20
        host, device = self.host_memory(size), self.device_memory(size)
        stream, data = self.stream(), bytes(size)
        location = [{"dstLoc": {"id": 0, "type": 1}, "srcLoc": {"id": 0, "type": 0}}]
        calls = {
            "memcpy": lambda: rt.memcpy(device, size, host, size, H2D),
            "memcpy_async, pageable": lambda: rt.memcpy_async(device, size, util.bytes_to_ptr(data), size, H2D, stream),
            "memcpy2d": lambda: rt.memcpy2d(host, size // 4, device, size // 4, size // 4, 4, D2H),
            "memset": lambda: rt.memset(device, size, 1, size),
            "memcpy_batch": lambda: rt.memcpy_batch([device], [size], [host], [size], location, [0]),
        }
        for name, call in calls.items():
            with self.subTest(name):
                self.assertTrue(self.lets_others_run(call))

    def test_waits(self):
        """What they wait for needs the lock: a function of Python in the stream."""
        stream, event = self.stream(), self.event()
        for name, wait in {
            "synchronize_stream": lambda: rt.synchronize_stream(stream),
            "synchronize_stream_with_timeout": lambda: rt.synchronize_stream_with_timeout(stream, 1000 * HANG),
            "synchronize_event": lambda: rt.synchronize_event(event),
            "synchronize_device": lambda: rt.synchronize_device(),
        }.items():
            with self.subTest(name):
                seen = []
                self.ok(rt.launch_host_func(stream, seen.append, 1))
                self.ok(rt.record_event(event, stream))
                self.assertEqual(0, wait())
                self.assertEqual([1], seen)

    def test_calls_that_wait_for_a_stream(self):
        for name, call in {
            "memcpy_async, pageable": lambda stream, device: rt.memcpy_async(device, 64, util.bytes_to_ptr(bytes(64)), 64, H2D, stream),
            "destroy_stream": lambda stream, _: rt.destroy_stream(stream),
        }.items():
            with self.subTest(name):
                stream, device, seen = self.stream(), self.device_memory(64), []
                self.ok(rt.launch_host_func(stream, seen.append, 1))
                self.assertEqual(0, call(stream, device))
                self.assertEqual([1], seen)


INTERRUPTED = """
import os, signal, sys, threading, time, acl
from acl import rt
acl.init(); rt.set_device(0)
stream, _ = rt.create_stream()
gate = threading.Event()
rt.launch_host_func(stream, lambda _: gate.wait(600), None)
began = threading.Event()
def interrupt():
    began.wait(); time.sleep(0.2); os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=interrupt, daemon=True).start()
try:
    began.set()
    %s
except KeyboardInterrupt:
    print("interrupted", rt.peek_at_last_error(0))
gate.set()
print(rt.synchronize_stream(stream))
"""

CHILDREN = """
import multiprocessing, sys, acl
from acl import rt

def work(number):
    codes = [acl.init(), rt.set_device(0)]
    device, ret = rt.malloc(64, 0)
    codes.append(ret)
    source, target = bytes([number] * 64), bytes(64)
    if ret == 0:
        codes.append(rt.memcpy(device, 64, acl.util.bytes_to_ptr(source), 64, 1))
        codes.append(rt.memcpy(acl.util.bytes_to_ptr(target), 64, device, 64, 2))
    return codes, source == target, acl.get_recent_err_msg()

if __name__ == "__main__":
    acl.init(); rt.set_device(0); rt.malloc(64, 0)
    with multiprocessing.get_context(sys.argv[1]).Pool(2, maxtasksperchild=1) as pool:
        for codes, same, message in pool.map(work, range(1, 5), 1):
            print(codes, same, "spawn" in (message or ""))
"""


class TestSignals(unittest.TestCase):
    def test_the_caller_ignores_sigint(self):
        """As a shell does for its background jobs: the tests here still see Ctrl-C, and so do the programs they start."""
        here = os.path.dirname(os.path.abspath(__file__))
        path = os.pathsep.join([here, *filter(None, sys.path)])
        script = (
            "import signal, support; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler);"
            "print(support.run_program('import signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)').stdout)"
        )
        done = subprocess.run(
            ["sh", "-c", 'trap "" INT; exec "$@"', "sh", sys.executable, "-c", script],
            env={**os.environ, "PYTHONPATH": path},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            universal_newlines=True,
            timeout=HANG,
        )
        self.assertEqual((["True"] * 2, ""), (done.stdout.split(), done.stderr))

    def test_ctrl_c_interrupts_a_wait(self):
        """At once, and nothing of it becomes the last error; the stream can be used on."""
        for wait in ("rt.synchronize_stream(stream)", "rt.synchronize_device()", "rt.synchronize_stream_with_timeout(stream, 500000)"):
            with self.subTest(wait):
                done = run_program(INTERRUPTED % wait)
                self.assertEqual((["interrupted 0", "0"], ""), (done.stdout.splitlines(), done.stderr))

    def test_ctrl_c_interrupts_stop_thread(self):
        done = run_program(INTERRUPTED % "acl.util.stop_thread(acl.util.start_thread(lambda _: gate.wait(600), None)[0])")
        self.assertEqual((["interrupted 0", "0"], ""), (done.stdout.splitlines(), done.stderr))


class TestProcesses(unittest.TestCase):
    def children(self, method):
        """Runs the program from a file: the children of spawn import it again."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "children.py")
            with open(path, "w") as file:
                file.write(CHILDREN)
            return run_program(path, method)

    def test_spawn(self):
        done = self.children("spawn")
        self.assertEqual(["[0, 0, 0, 0, 0] True False"] * 4, done.stdout.splitlines(), done.stderr)

    def test_fork(self):
        """A child that was forked from a process with a runtime gets an error from every call, and does not hang."""
        done = self.children("fork")
        self.assertEqual(["[500000, 500000, 500000] False True"] * 4, done.stdout.splitlines(), done.stderr)
        self.assertIn("forked", done.stderr)

    def test_fork_before_the_first_call(self):
        """Importing acl is no call."""
        done = run_program(
            "import os, sys, acl\n"
            "pid = os.fork()\n"
            "os.write(1, b'%d %d\\n' % (acl.init(), acl.rt.set_device(0)))\n"
            "if pid: sys.exit(os.WEXITSTATUS(os.waitpid(pid, 0)[1]))"
        )
        self.assertEqual((0, "0 0\n0 0\n", ""), (done.returncode, done.stdout, done.stderr))

    def test_exit_with_faulthandler(self):
        """It takes the alternate signal stack of the main thread away before the library is quiet."""
        for _ in range(12):
            done = run_program(
                "import acl\n"
                "acl.init(), acl.rt.set_device(0)\n"
                "for i in range(20): acl.rt.memset(acl.rt.malloc(1 << 20, 0)[0], 1 << 20, 1, 1 << 20)",
                PYTHONFAULTHANDLER="1",
            )
            self.assertEqual((0, ""), (done.returncode, done.stderr))


if __name__ == "__main__":
    unittest.main()
