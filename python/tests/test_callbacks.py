"""Python functions that the runtime calls: in which thread, what becomes of exceptions, when they are let go of."""

import contextlib
import gc
import io
import sys
import threading
import time
import unittest
import weakref

import acl
from acl import _callbacks, _library, rt, util
from support import HANG, DeviceCase, run_program

NO_BLOCK, BLOCK = 0, 1


class Thing:
    """Something a weak reference can watch."""


def until(condition):
    """Waits until a condition holds; False if that takes so long that it never will."""
    end = time.monotonic() + HANG
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.001)
    return True


class Reporter:
    """A thread that runs callbacks, as pyACL programs have one."""

    def __init__(self, context):
        self.stop = False
        self.codes = []
        self.tid, ret = util.start_thread(self.loop, [context])
        assert ret == 0

    def loop(self, arguments):
        rt.set_context(arguments[0])
        while not self.stop:
            self.codes.append(rt.process_report(20))

    def end(self):
        self.stop = True
        return util.stop_thread(self.tid)


class CallbackCase(DeviceCase):
    def setUp(self):
        super().setUp()
        self.launches = _callbacks._Launches()  # no test finds those of another
        self.launches.ticks = _callbacks._launches.ticks
        _callbacks._launches = self.launches
        self.raised = []
        self.addCleanup(setattr, sys, "unraisablehook", sys.unraisablehook)
        sys.unraisablehook = self.raised.append

    def reporter(self, stream):
        reporter = Reporter(self.ok(rt.get_context()))
        self.addCleanup(reporter.end)
        self.ok(rt.subscribe_report(reporter.tid, stream))
        self.addCleanup(rt.unsubscribe_report, reporter.tid, stream)
        return reporter

    def no_launches_left(self):
        self.assertTrue(until(lambda: not self.launches.by_number and not self.launches.by_stream))


class TestHostFunctions(CallbackCase):
    def test_they_run_in_the_order_of_the_stream(self):
        stream, seen = self.stream(), []
        for i in range(100):
            self.ok(rt.launch_host_func(stream, seen.append, i))
        self.ok(rt.synchronize_stream(stream))
        self.assertEqual(list(range(100)), seen)
        self.no_launches_left()

    def test_the_default_stream(self):
        seen = []
        self.ok(rt.launch_host_func(0, seen.append, "default"))
        self.ok(rt.synchronize_stream(0))
        self.assertEqual(["default"], seen)
        self.no_launches_left()

    def test_captured(self):
        """A function that is captured runs at each execution of the model, and is freed with the model."""
        stream, seen = self.ok(rt.create_stream()), []

        def function(data):
            seen.append(data)

        alive = weakref.ref(function)
        self.ok(rt.mdl_ri_capture_begin(stream, acl.ACL_MODEL_RI_CAPTURE_MODE_RELAXED))
        self.ok(rt.launch_host_func(stream, function, 1))
        self.ok(rt.launch_host_func(stream, seen.append, 2))
        model = self.ok(rt.mdl_ri_capture_end(stream))
        del function
        self.assertEqual(seen, [])
        for _ in range(3):
            self.ok(rt.mdl_ri_execute_async(model, stream))
        self.ok(rt.launch_host_func(stream, seen.append, 3))
        self.ok(rt.synchronize_stream(stream))
        self.assertEqual(seen, [1, 2, 1, 2, 1, 2, 3])
        self.assertIsNotNone(alive())
        self.ok(rt.mdl_ri_destroy(model))
        gc.collect()
        self.assertIsNone(alive())
        self.ok(rt.destroy_stream(stream))

    def test_the_argument_is_the_object_itself(self):
        stream, thing, seen = self.stream(), Thing(), []
        self.ok(rt.launch_host_func(stream, lambda data: seen.append(data is thing), thing))
        self.ok(rt.launch_host_func(stream, lambda data: seen.append(data is None), None))
        self.ok(rt.synchronize_stream(stream))
        self.assertEqual([True, True], seen)

    def test_an_exception_is_told_and_the_stream_goes_on(self):
        stream, seen = self.stream(), []

        def failing(data):
            raise ValueError(f"no {data}")

        self.ok(rt.launch_host_func(stream, failing, "luck"))
        self.ok(rt.launch_host_func(stream, sys.exit, 3))
        self.ok(rt.launch_host_func(stream, seen.append, "after"))
        self.ok(rt.synchronize_stream(stream))
        self.assertEqual(["after"], seen)
        self.assertEqual([ValueError, SystemExit], [raised.exc_type for raised in self.raised])
        first = self.raised[0]
        self.assertIs(failing, first.object)
        self.assertEqual("no luck", str(first.exc_value))
        self.assertIn("acl.rt.launch_host_func", first.err_msg)
        self.assertIsNotNone(first.exc_traceback)

    def test_without_a_hook_of_the_program_it_is_printed(self):
        def failing(data):
            raise ValueError("no luck")

        sys.unraisablehook = sys.__unraisablehook__
        stream = self.stream()
        with contextlib.redirect_stderr(io.StringIO()) as printed:
            self.ok(rt.launch_host_func(stream, failing, None))
            self.ok(rt.synchronize_stream(stream))
        self.assertRegex(printed.getvalue(), r"(?s)ignored in function of acl\.rt\.launch_host_func.*failing.*ValueError: no luck")

    def test_a_hook_that_fails(self):
        sys.unraisablehook = lambda raised: 1 / 0
        stream = self.stream()
        self.ok(rt.launch_host_func(stream, lambda _: {}["missing"], None))
        self.ok(rt.synchronize_stream(stream))

    def test_many_threads(self):
        """Each thread has a stream; every function runs once, in the order of its stream."""
        context, results = self.ok(rt.get_context()), {}

        def work(number):
            rt.set_context(context)
            stream, _ = rt.create_stream()
            seen = []
            codes = [rt.launch_host_func(stream, seen.append, i) for i in range(50)]
            codes.append(rt.synchronize_stream(stream))
            rt.destroy_stream(stream)
            results[number] = (set(codes), seen)

        threads = [threading.Thread(target=work, args=[i]) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(HANG)
        self.assertEqual({i: ({0}, list(range(50))) for i in range(8)}, results)
        self.no_launches_left()


class TestCallbacks(CallbackCase):
    def test_they_run_in_the_reporting_thread(self):
        stream, seen = self.stream(), []
        reporter = self.reporter(stream)
        for i in range(20):
            self.ok(rt.launch_callback(lambda data: seen.append((data, threading.get_ident())), i, BLOCK, stream))
        self.ok(rt.synchronize_stream(stream))
        self.assertEqual([(i, reporter.tid) for i in range(20)], seen)
        self.no_launches_left()

    def test_a_stream_need_not_wait(self):
        stream, seen = self.stream(), []
        self.reporter(stream)
        for i in range(20):
            self.ok(rt.launch_callback(seen.append, i, NO_BLOCK, stream))
        self.assertTrue(until(lambda: len(seen) == 20))
        self.assertEqual(list(range(20)), seen)

    def test_an_exception_does_not_end_process_report(self):
        stream, seen = self.stream(), []
        reporter = self.reporter(stream)
        self.ok(rt.launch_callback(lambda data: {}[data], "missing", BLOCK, stream))
        self.ok(rt.launch_callback(seen.append, "after", BLOCK, stream))
        self.ok(rt.synchronize_stream(stream))
        self.assertEqual(["after"], seen)
        self.assertEqual([KeyError], [raised.exc_type for raised in self.raised])
        self.assertIn("acl.rt.launch_callback", self.raised[0].err_msg)
        self.assertEqual(0, reporter.end())
        self.assertLessEqual(set(reporter.codes), {0, 507012, 107012})

    def test_ctrl_c_during_a_callback_of_the_main_thread(self):
        """It is for the program, not for the callback: process_report raises it."""
        done = run_program(
            "import acl, signal, threading, time\n"
            "from acl import _library, rt\n"
            "acl.init(); rt.set_device(0); stream, _ = rt.create_stream()\n"
            "interrupt = lambda _: signal.raise_signal(signal.SIGINT)\n"
            "rt.subscribe_report(threading.get_ident(), stream)\n"
            "rt.launch_callback(interrupt, None, 0, stream)\n"
            "try:\n"
            "    for _ in range(1000): rt.process_report(100)\n"
            "except KeyboardInterrupt:\n"
            "    print('interrupted')\n"
        )
        self.assertEqual(("interrupted\n", "", 0), (done.stdout, done.stderr, done.returncode))

    def test_ctrl_c_as_callbacks_begin(self):
        """Neither the signal nor the function is lost, whenever the one comes."""
        done = run_program(LOST)
        self.assertEqual(("40 interrupts, none lost\n", "", 0), (done.stdout, done.stderr, done.returncode))


LOST = """
import os, signal, threading, time
import acl
from acl import rt

acl.init(), rt.set_device(0)
context, _ = rt.get_context()
stream, _ = rt.create_stream()
rt.subscribe_report(threading.get_ident(), stream)
launched, ran, interrupts, over = [], [], 0, False
ready = threading.Event()

def launch():
    rt.set_context(context)
    while not over:
        if len(launched) - len(ran) >= 32:  # all of them run before the program ends
            time.sleep(0.0005)
        elif rt.launch_callback(ran.append, None, 1, stream) == 0:
            launched.append(None)

def interrupt():
    for i in range(40):
        ready.wait(), ready.clear()  # the main thread is where it catches
        time.sleep(0.0005)
        os.kill(os.getpid(), signal.SIGINT)
        while interrupts <= i:
            time.sleep(0.0005)

threads = [threading.Thread(target=target) for target in (launch, interrupt)]
started = False
while not over or any(thread.is_alive() for thread in threads) or rt.process_report(200) == 0:
    try:
        while not started:
            started = True
            for thread in threads:
                thread.start()
        ready.set()
        while interrupts < 40:
            rt.process_report(20)
        over = True
        rt.process_report(20)
    except KeyboardInterrupt:
        interrupts += 1
lost = len(launched) - len(ran)
print(f"{interrupts} interrupts, {lost or 'none'} lost")
"""


class TestExceptionInfo(CallbackCase):
    def fail_a_task(self, stream):
        """Queues a copy whose base addresses turn out to be no addresses when it runs."""
        cells = self.device_memory(64)
        self.ok(rt.memset(cells, 64, 0, 64))
        self.ok(rt.memcpy_async_with_offset(cells, 64, 0, cells + 8, 64, 0, 6, stream))
        return rt.synchronize_stream(stream)

    def test_it_is_told_of_a_failure(self):
        stream, seen = self.stream(), []
        stream_id = self.ok(rt.stream_get_id(stream))

        def report(info):
            seen.append((rt.get_stream_id_from_exception_info(info), rt.get_error_code_from_exception_info(info)))
            raise RuntimeError("raised")

        self.ok(rt.set_exception_info_callback(report))
        self.addCleanup(rt.set_exception_info_callback, None)
        code = self.fail_a_task(stream)
        self.assertNotEqual(0, code)
        self.assertEqual([(stream_id, code)], seen)
        self.assertEqual([(RuntimeError, report)], [(raised.exc_type, raised.object) for raised in self.raised])
        self.ok(rt.set_exception_info_callback(None))
        self.assertNotEqual(0, self.fail_a_task(self.stream()))
        self.assertEqual(1, len(seen))

    def test_the_last_one_counts(self):
        first, second = [], []
        self.ok(rt.set_exception_info_callback(first.append))
        self.ok(rt.set_exception_info_callback(second.append))
        self.addCleanup(rt.set_exception_info_callback, None)
        self.fail_a_task(self.stream())
        self.assertEqual((0, 1), (len(first), len(second)))

    def test_only_functions_and_none(self):
        with self.assertRaisesRegex(TypeError, r"set_exception_info_callback: argument 1 \(fn\) must be callable, not int"):
            rt.set_exception_info_callback(0)


class TestAllocators(CallbackCase):
    def test_functions_are_taken(self):
        """Nothing is kept of a call that fails; test_memory has those that succeed."""
        before = dict(_callbacks._allocator_functions)
        for name in ("alloc", "free", "alloc_advise", "get_addr_from_block"):
            function = getattr(rt, f"allocator_set_{name}_func_to_desc")
            self.assertEqual(100000, function(1, print))
            with self.assertRaisesRegex(TypeError, r"argument 2 \(func\) must be callable, not NoneType"):
                function(1, None)
        self.assertEqual(before, _callbacks._allocator_functions)

    def test_results_are_addresses(self):
        self.assertEqual(2**64 - 8, _callbacks._address_or_null("form", print, -8))
        self.assertIsNone(_callbacks._address_or_null("form", print, None))
        self.assertIsNone(_callbacks._address_or_null("form", print, "text"))
        self.assertEqual([TypeError], [raised.exc_type for raised in self.raised])


class TestLifetime(CallbackCase):
    def gone(self, watch):
        return until(lambda: gc.collect() >= 0 and watch() is None)

    def test_what_has_run_is_let_go(self):
        stream, thing = self.stream(), Thing()
        self.ok(rt.launch_host_func(stream, lambda _: None, thing))
        self.ok(rt.synchronize_stream(stream))
        watch = weakref.ref(thing)
        del thing
        self.assertTrue(self.gone(watch))

    def test_what_was_refused_is_let_go(self):
        for launch, code in (
            (lambda thing: rt.launch_host_func(12345, lambda _: None, thing), 107017),
            (lambda thing: rt.launch_callback(lambda _: None, thing, BLOCK, self.stream()), 107015),
            (lambda thing: rt.launch_callback(lambda _: None, thing, 7, 0), 100000),
        ):
            thing = Thing()
            watch = weakref.ref(thing)
            self.assertEqual(code, launch(thing))
            del thing
            self.assertTrue(self.gone(watch))
        self.no_launches_left()

    def test_what_waits_is_kept(self):
        stream, seen = self.stream(), []
        let_go = self.blocked(stream)
        thing = Thing()
        watch = weakref.ref(thing)
        self.ok(rt.launch_host_func(stream, lambda data: seen.append(type(data)), thing))
        del thing
        gc.collect()
        self.assertIsNotNone(watch())
        let_go()
        self.ok(rt.synchronize_stream(stream))
        self.assertEqual([Thing], seen)
        self.assertTrue(self.gone(watch))

    def test_what_an_abort_dropped_goes_with_the_next_one(self):
        stream = self.stream()
        let_go = self.blocked(stream)
        things = [Thing() for _ in range(10)]
        watches = [weakref.ref(thing) for thing in things]
        for thing in things:
            self.ok(rt.launch_host_func(stream, lambda _: self.fail("it was dropped"), thing))
        self.ok(rt.stream_abort(stream))
        let_go()
        del things, thing
        self.ok(rt.launch_host_func(stream, lambda _: None, None))
        self.ok(rt.synchronize_stream(stream))
        for watch in watches:
            self.assertTrue(self.gone(watch))
        self.no_launches_left()

    def test_what_a_stream_took_along_does_not_pile_up(self):
        """Streams are destroyed with functions in them; these are forgotten all the same."""
        launches, most, watches = self.launches, self.launches.LEAST, []
        other, never = self.stream(), self.event()
        let_go = self.blocked(other)
        self.ok(rt.record_event(never, other))
        for _ in range(10 * most):
            stream = self.ok(rt.create_stream())
            self.ok(rt.stream_wait_event(stream, never))
            thing = Thing()
            watches.append(weakref.ref(thing))
            self.ok(rt.launch_host_func(stream, lambda _: None, thing))
            self.ok(rt.destroy_stream_force(stream))
            self.assertTrue(until(lambda: launches.look_at < sys.maxsize), "a look at the streams does not end")
            self.assertLessEqual(len(launches.by_number), most)
        del thing
        let_go()
        self.ok(rt.synchronize_device())
        launches.look()
        self.no_launches_left()
        self.assertTrue(self.gone(lambda: next((watch() for watch in watches if watch() is not None), None)))
        self.assertEqual(most, launches.look_at)

    def test_nobody_notices_the_looks(self):
        """They ask about dead streams; the errors are not those of the program."""
        rt.get_last_error(0)
        stream = self.stream()
        let_go = self.blocked(stream)
        for i in range(3 * self.launches.LEAST):
            self.ok(rt.launch_host_func(stream, lambda _: None, i))
        let_go()
        self.ok(rt.synchronize_stream(stream))
        self.assertEqual(0, rt.peek_at_last_error(0))


PROGRAM = """
import sys, time, threading, acl
from acl import rt
acl.init(); rt.set_device(0)
stream, _ = rt.create_stream(); other, _ = rt.create_stream(); event, _ = rt.create_event()
context, _ = rt.get_context()
def say(text): print(text, flush=True)
def reporting(context):
    rt.set_context(context)
    while True: rt.process_report(-1)
"""

# For programs whose functions all run in the end, however slow the machine is.
PATIENT = f"from acl import _callbacks; _callbacks._GRACE = {HANG}\n"


class TestEnd(unittest.TestCase):
    """The interpreter ends while functions are waiting: the process ends too, with its own exit code and without a crash."""

    def end(self, text, **environment):
        done = run_program(PROGRAM + text + "\nsys.exit(7)", **environment)
        self.assertEqual((7, ""), (done.returncode, done.stderr))
        return done.stdout.splitlines()

    def test_what_can_run_runs(self):
        lines = self.end(PATIENT + "for i in range(50): rt.launch_host_func(stream, say, i)")
        self.assertEqual([str(i) for i in range(50)], lines)

    def test_what_waits_for_another_stream_runs(self):
        lines = self.end(
            PATIENT + "rt.launch_host_func(other, lambda _: time.sleep(0.2), None)\n"
            "rt.record_event(event, other); rt.stream_wait_event(stream, event)\n"
            "rt.launch_host_func(stream, say, 'ran')"
        )
        self.assertEqual(["ran"], lines)

    def test_behind_a_function_that_never_returns(self):
        lines = self.end("rt.launch_host_func(stream, lambda _: time.sleep(3600), 0)\nrt.launch_host_func(stream, say, 'ran')")
        self.assertEqual([], lines)

    def test_callbacks_that_nobody_runs(self):
        lines = self.end(
            "rt.subscribe_report(threading.get_ident(), stream)\n"
            "for i in range(5): say(rt.launch_callback(say, 'ran', 1, stream))"
        )
        self.assertEqual(["0"] * 5, lines)

    def test_a_thread_that_waits_for_callbacks(self):
        """Nobody called stop_thread."""
        lines = self.end(
            "tid, _ = acl.util.start_thread(reporting, context)\nsay(rt.subscribe_report(tid, stream))\n"
            "rt.launch_callback(lambda _: time.sleep(3600), 0, 1, stream); rt.launch_callback(say, 'ran', 1, stream)"
        )
        self.assertEqual(["0"], lines)

    def test_an_exception_callback_is_set(self):
        self.end("rt.set_exception_info_callback(lambda info: None)")

    def test_launches_from_atexit(self):
        """Handlers that were registered before acl was imported run after its own: they cannot launch any more."""
        done = run_program(
            "import atexit\natexit.register(lambda: print(rt.launch_host_func(stream, print, 'ran')))\n" + PROGRAM
        )
        self.assertEqual(("500000\n", "", 0), (done.stdout, done.stderr, done.returncode))

    def test_a_forked_child(self):
        """It gets an error, at once, though it was forked while functions were waiting."""
        done = run_program(
            PROGRAM
            + "import os\n"
            "gate, running = threading.Event(), threading.Event()\n"
            "rt.launch_host_func(stream, lambda _: running.set() or gate.wait(60), 0)\n"
            "rt.launch_host_func(stream, id, 0)\n"
            "running.wait()\n"  # before 3.12 Python may hang if a thread enters it during a fork
            "pid = os.fork()\n"
            "if pid == 0:\n"
            "    say(rt.launch_host_func(stream, print, 'ran')); sys.exit(3)\n"
            "say(os.WEXITSTATUS(os.waitpid(pid, 0)[1])); gate.set(); say(rt.synchronize_stream(stream))"
        )
        self.assertEqual(["500000", "3", "0"], done.stdout.splitlines())
        self.assertIn("forked", done.stderr)


if __name__ == "__main__":
    unittest.main()
