"""Waits: in slices that leave no trace, so that signals are handled, with the interpreter lock released."""

import ctypes
import signal
import threading
import time
import unittest

import acl
from acl import _library

STREAM_TIMEOUT, EVENT_TIMEOUT, REPORT_TIMEOUT = 507046, 507047, 507012
THREAD_LEVEL = acl.ACL_RT_THREAD_LEVEL


class Held(unittest.TestCase):
    """A stream held up by a host function, until the test lets it go."""

    def setUp(self):
        acl.rt.set_device(0)
        self.addCleanup(acl.rt.reset_device, 0)
        self.stream, ret = acl.rt.create_stream()
        self.assertEqual(0, ret)
        self.event, ret = acl.rt.create_event()
        self.assertEqual(0, ret)
        self.let_go = threading.Event()
        self.held = threading.Event()

        def run(_):
            self.held.set()
            self.let_go.wait(60)

        self.function = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(run)
        self.hold()
        acl.rt.get_last_error(THREAD_LEVEL)

    def hold(self):
        self.let_go.clear()
        self.held.clear()
        launch = _library.library["aclrtLaunchHostFunc"]
        launch.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
        self.assertEqual(0, launch(self.stream, ctypes.cast(self.function, ctypes.c_void_p), None))
        self.assertEqual(0, acl.rt.record_event(self.event, self.stream))
        self.assertTrue(self.held.wait(60))

    def tearDown(self):
        self.let_go.set()
        self.assertEqual(0, acl.rt.synchronize_stream(self.stream))
        acl.rt.destroy_event(self.event)
        acl.rt.destroy_stream(self.stream)

    def waits(self):
        """Every wait with what it waits for, with and without a timeout."""
        rt = acl.rt
        return [
            (rt.synchronize_stream, rt.synchronize_stream_with_timeout, (self.stream,), STREAM_TIMEOUT),
            (rt.synchronize_event, rt.synchronize_event_with_timeout, (self.event,), EVENT_TIMEOUT),
            (rt.synchronize_device, rt.synchronize_device_with_timeout, (), STREAM_TIMEOUT),
        ]


class TestWaits(Held):
    def test_time_that_runs_out(self):
        """The code is that of the C call, and the last error, however many slices there were."""
        for _, timed, what, code in self.waits():
            for timeout in (1, 49, 50, 51, 120):
                with self.subTest(timed.__name__, timeout=timeout):
                    start = time.monotonic()
                    self.assertEqual(code, timed(*what, timeout))
                    self.assertGreaterEqual(time.monotonic() - start, timeout / 1000)
                    self.assertEqual(code, acl.rt.get_last_error(THREAD_LEVEL))

    def test_illegal_timeouts(self):
        """Those of the real call: 0 and less than -1."""
        for _, timed, what, _ in self.waits():
            with self.subTest(timed.__name__):
                self.assertEqual([107000, 107000], [timed(*what, 0), timed(*what, -2)])
        self.assertEqual([100000, 100000], [acl.rt.process_report(timeout) for timeout in (0, -2)])

    def test_interrupted(self):
        """A signal handler runs within the wait, its exception ends it, and no slice left a last error."""
        for forever, timed, what, _ in self.waits():
            for wait in (lambda: forever(*what), lambda: timed(*what, -1), lambda: timed(*what, 60000)):
                with self.subTest(forever.__name__):
                    with self.assertRaises(KeyboardInterrupt):
                        with interrupt_after(0.12):
                            wait()
                    self.assertEqual(0, acl.rt.peek_at_last_error(THREAD_LEVEL))

    def test_a_signal_that_raises_nothing(self):
        ran = []
        with handler(signal.SIGALRM, lambda *_: ran.append(1) or self.let_go.set()):
            signal.setitimer(signal.ITIMER_REAL, 0.12)
            self.assertEqual(0, acl.rt.synchronize_stream(self.stream))
        self.assertEqual([1], ran)
        self.hold()

    def test_others_run_meanwhile(self):
        """The function that lets the stream go is Python, in another thread: it needs the interpreter lock."""
        for forever, timed, what, _ in self.waits():
            for wait in (lambda: forever(*what), lambda: timed(*what, -1), lambda: timed(*what, 60000)):
                with self.subTest(forever.__name__):
                    threading.Timer(0.1, self.let_go.set).start()
                    self.assertEqual(0, wait())
                    self.hold()

    def test_wrong_handles(self):
        for forever, timed, what, _ in self.waits():
            if what:
                with self.subTest(forever.__name__):
                    self.assertEqual([107017] * 3, [forever(8), timed(8, -1), timed(8, 1000)])


class TestReports(unittest.TestCase):
    def test_nothing_comes(self):
        """A thread with a subscription and no callbacks waits its time out."""
        acl.rt.set_device(0)
        self.addCleanup(acl.rt.reset_device, 0)
        stream, _ = acl.rt.create_stream()
        me = threading.get_ident()
        self.assertEqual(0, acl.rt.subscribe_report(me, stream))
        for timeout in (1, 50, 51, 120):
            with self.subTest(timeout=timeout):
                self.assertEqual(REPORT_TIMEOUT, acl.rt.process_report(timeout))
        with self.assertRaises(KeyboardInterrupt), interrupt_after(0.12):
            acl.rt.process_report(-1)
        self.assertEqual(0, acl.rt.unsubscribe_report(me, stream))
        self.assertEqual(107012, acl.rt.process_report(10))
        self.assertEqual(107012, acl.rt.process_report(1000))
        acl.rt.destroy_stream(stream)


class handler:
    """Handles a signal for a while."""

    def __init__(self, number, function):
        self.number, self.function = number, function

    def __enter__(self):
        self.before = signal.signal(self.number, self.function)

    def __exit__(self, *_):
        signal.signal(self.number, self.before)


class interrupt_after(handler):
    """Ctrl-C after so many seconds."""

    def __init__(self, seconds):
        super().__init__(signal.SIGALRM, signal.default_int_handler)
        self.seconds = seconds

    def __enter__(self):
        super().__enter__()
        signal.setitimer(signal.ITIMER_REAL, self.seconds)

    def __exit__(self, *_):
        signal.setitimer(signal.ITIMER_REAL, 0)
        super().__exit__()
