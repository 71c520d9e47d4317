"""Models: what their tasks do, and functions for their end. Kernels in models are in test_kernels."""

import gc
import sys
import threading
import unittest
import weakref

import acl
from acl import _models, _structs, rt
from support import DeviceCase, run_program

RELAXED = acl.ACL_MODEL_RI_CAPTURE_MODE_RELAXED
WRITE, WAIT = acl.ACL_MODEL_RI_TASK_VALUE_WRITE, acl.ACL_MODEL_RI_TASK_VALUE_WAIT


class Thing:
    """Something a weak reference can watch."""

    def method(self, data):
        data.append(self)


class ModelCase(DeviceCase):
    def setUp(self):
        super().setUp()
        self.queue = self.stream()

    def captured(self, submit=lambda: None):
        """A model with what submit submits to the queue."""
        self.ok(rt.mdl_ri_capture_begin(self.queue, RELAXED))
        submit()
        return self.ok(rt.mdl_ri_capture_end(self.queue))

    def tasks(self, model):
        return [task for s in self.ok(rt.mdl_ri_get_streams(model)) for task in self.ok(rt.mdl_ri_get_tasks_by_stream(s))]


class TestParameters(ModelCase):
    def test_value_tasks(self):
        """A value write becomes a wait, whose parameters are read back; what is not named is 0."""
        word = self.device_memory(64)
        model = self.captured(lambda: self.ok(rt.value_write(word, 2**64 - 1, 0, self.queue)))
        (task,) = self.tasks(model)
        common = {"taskGrp": 0, "opInfoPtr": 0, "opInfoSize": 0}
        want = {"type": WRITE, **common, "valueWriteTaskParams": {"devAddr": word, "value": 2**64 - 1}}
        self.assertEqual((want, 0), rt.mdl_ri_task_get_params(task))
        self.ok(rt.mdl_ri_task_set_params(task, want))  # as it was read
        self.ok(rt.mdl_ri_task_set_params(task, {"type": WAIT, "valueWaitTaskParams": {"devAddr": word + 8, "flag": 1}}))
        want = {"type": WAIT, **common, "valueWaitTaskParams": {"devAddr": word + 8, "value": 0, "flag": 1}}
        self.assertEqual((want, 0), rt.mdl_ri_task_get_params(task))
        self.ok(rt.mdl_ri_update(model))
        self.ok(rt.mdl_ri_destroy(model))

    def test_events(self):
        event, other = self.ok(rt.create_event_ex_with_flag(acl.ACL_EVENT_SYNC)), self.stream()

        def submit():
            self.ok(rt.record_event(event, self.queue))
            self.ok(rt.stream_wait_event(other, event))
            back = self.ok(rt.create_event_ex_with_flag(acl.ACL_EVENT_SYNC))
            self.ok(rt.record_event(back, other))
            self.ok(rt.stream_wait_event(self.queue, back))
            self.ok(rt.destroy_event(back))

        model = self.captured(submit)
        got = {}
        for task in self.tasks(model):
            params = self.ok(rt.mdl_ri_task_get_params(task))
            got[params["type"]] = sorted(set(params) - {"type", "taskGrp", "opInfoPtr", "opInfoSize"})
        self.assertEqual({2: ["eventRecordTaskParams"], 3: ["eventWaitTaskParams"]}, got)
        self.ok(rt.mdl_ri_destroy(model))
        self.ok(rt.destroy_event(event))

    def test_refused(self):
        """With the codes of C; what has the wrong form raises before C is called, and the model stays good."""
        zero = {"type": 0, "taskGrp": 0, "opInfoPtr": 0, "opInfoSize": 0}
        self.assertEqual((zero, 107000), rt.mdl_ri_task_get_params(0))
        self.assertEqual(107000, rt.mdl_ri_task_set_params(0, {}))
        self.assertEqual(({"schemMode": 0}, 100000), rt.mdl_ri_kernel_task_get_attribute(0, 1))
        word = self.device_memory(64)
        model = self.captured(lambda: self.ok(rt.value_write(word, 1, 0, self.queue)))
        (task,) = self.tasks(model)
        self.assertEqual(({"schemMode": 0}, 107000), rt.mdl_ri_kernel_task_get_attribute(task, 1))
        for params, error, text in (
            ([], TypeError, r"argument 2 \(params_dict\) must be dict, not list"),
            ({"union": {}}, ValueError, "has no entry 'union'"),
            ({"valueWriteTaskParams": {"addr": 1}}, ValueError, "valueWriteTaskParams has no entry 'addr'"),
            ({"kernelTaskParams": {"cfg": 1}}, TypeError, "kernelTaskParams.cfg must be list, not int"),
            ({"kernelTaskParams": {"cfg": [{"no": 1}]}}, ValueError, r"kernelTaskParams.cfg\[0\] has no entry 'no'"),
            ({"valueWriteTaskParams": {"value": 2**64}}, OverflowError, "valueWriteTaskParams.value does not fit 64 bits"),
        ):
            with self.subTest(params), self.assertRaisesRegex(error, text):
                rt.mdl_ri_task_set_params(task, params)
        self.ok(rt.mdl_ri_execute_async(model, self.queue))
        self.ok(rt.synchronize_stream(self.queue))
        self.assertEqual(107000, rt.mdl_ri_task_set_params(task, {"type": 99}))
        self.assertEqual(507011, rt.mdl_ri_execute_async(model, self.queue))
        self.ok(rt.mdl_ri_destroy(model))

    def test_the_configuration_reaches_c(self):
        """What cfg points to lives as long as the struct; the dictionary is not changed."""
        kernel = {"numBlocks": 3, "cfg": [{"id": 7, "value": {"timeout": 9}}]}
        params = _structs.task_params({"type": 1, "kernelTaskParams": kernel})
        gc.collect()
        cfg = params.kernelTaskParams.cfg.contents
        self.assertEqual((3, 1, 7, 9), (params.kernelTaskParams.numBlocks, cfg.numAttrs, cfg.attrs[0].id, cfg.attrs[0].value.timeout))
        self.assertEqual({"numBlocks": 3, "cfg": [{"id": 7, "value": {"timeout": 9}}]}, kernel)


class TestEnds(ModelCase):
    def setUp(self):
        super().setUp()
        self.raised = []
        self.addCleanup(setattr, sys, "unraisablehook", sys.unraisablehook)
        sys.unraisablehook = self.raised.append

    def test_they_run_once_in_order(self):
        """In the thread that destroys the model, with the objects themselves; then nothing refers to them."""
        model, seen, thing = self.captured(), [], Thing()

        def first(data):
            seen.append(("first", data, threading.get_ident()))

        alive = [weakref.ref(first), weakref.ref(thing)]
        self.ok(rt.mdl_ri_destroy_register_callback(model, first, thing))
        self.ok(rt.mdl_ri_destroy_register_callback(model, seen.append, "second"))
        del first
        gc.collect()
        self.assertIsNotNone(alive[0]())
        self.ok(rt.mdl_ri_destroy(model))
        self.assertEqual([("first", thing, threading.get_ident()), "second"], seen)
        seen.clear()
        del thing
        gc.collect()
        self.assertEqual([None, None], [ref() for ref in alive])
        self.assertEqual({}, _models._ends)

    def test_unregistered(self):
        """A function that is taken back does not run, is freed, and may be registered again; equal functions are one."""
        model, seen, thing = self.captured(), [], Thing()
        self.ok(rt.mdl_ri_destroy_register_callback(model, thing.method, seen))
        self.assertEqual(107000, rt.mdl_ri_destroy_register_callback(model, thing.method, None))
        self.ok(rt.mdl_ri_destroy_unregister_callback(model, thing.method))
        self.assertEqual(107000, rt.mdl_ri_destroy_unregister_callback(model, thing.method))
        self.assertEqual({}, _models._ends)
        self.ok(rt.mdl_ri_destroy_register_callback(model, print, "never"))
        self.ok(rt.mdl_ri_destroy_register_callback(model, thing.method, seen))
        self.ok(rt.mdl_ri_destroy_unregister_callback(model, print))
        self.ok(rt.mdl_ri_destroy(model))
        self.assertEqual([thing], seen)

    def test_refused(self):
        """Nothing is kept of a registration that C refuses."""
        model = self.captured()
        self.ok(rt.mdl_ri_destroy(model))
        for handle, code in ((0, 107000), (model, 107017)):
            self.assertEqual(code, rt.mdl_ri_destroy_register_callback(handle, print, None))
            self.assertEqual(code, rt.mdl_ri_destroy_unregister_callback(handle, print))
        self.assertEqual({}, _models._ends)
        with self.assertRaisesRegex(TypeError, r"argument 2 \(fn\) must be callable, not int"):
            rt.mdl_ri_destroy_register_callback(model, 0, None)

    def test_an_exception(self):
        """It goes to sys.unraisablehook; the next function runs, and the model is destroyed."""
        model, seen = self.captured(), []
        self.ok(rt.mdl_ri_destroy_register_callback(model, lambda data: data[1], []))
        self.ok(rt.mdl_ri_destroy_register_callback(model, seen.append, 2))
        self.ok(rt.mdl_ri_destroy(model))
        self.assertEqual(([IndexError], [2]), ([raised.exc_type for raised in self.raised], seen))

    def test_captured_functions_and_ends(self):
        """A function may use the runtime: it frees what the model used. Functions that were captured go with the model, too."""
        memory, ran, freed = self.ok(rt.malloc(64, 0)), [], []
        model = self.captured(lambda: self.ok(rt.launch_host_func(self.queue, ran.append, 1)))
        self.ok(rt.mdl_ri_destroy_register_callback(model, lambda ptr: freed.append(rt.free(ptr)), memory))
        self.ok(rt.mdl_ri_execute_async(model, self.queue))
        self.ok(rt.synchronize_stream(self.queue))
        self.ok(rt.mdl_ri_destroy(model))
        self.assertEqual(([1], [0]), (ran, freed))

    def test_with_the_context(self):
        """A model goes with its context."""
        home, seen = self.ok(rt.get_context()), []
        context = self.ok(rt.create_context(0))
        stream = self.ok(rt.create_stream())
        self.ok(rt.mdl_ri_capture_begin(stream, RELAXED))
        model = self.ok(rt.mdl_ri_capture_end(stream))
        self.ok(rt.mdl_ri_destroy_register_callback(model, seen.append, "gone"))
        self.ok(rt.destroy_context(context))
        self.ok(rt.set_context(home))
        self.assertEqual((["gone"], {}), (seen, _models._ends))

    def test_many_threads(self):
        """Each registers and takes back its own function of one model; those that stay run once each."""
        model, seen, codes = self.captured(), [], []

        def work(number):
            for i in range(50):
                function = lambda _: seen.append(number)  # noqa: E731
                codes.append(rt.mdl_ri_destroy_register_callback(model, function, None))
                if i < 49:
                    codes.append(rt.mdl_ri_destroy_unregister_callback(model, function))

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.ok(rt.mdl_ri_destroy(model))
        self.assertEqual(([0, 1, 2, 3], {0}), (sorted(seen), set(codes)))

    def test_the_interpreter_ends(self):
        """Functions that are left do not run, and nothing is registered any more."""
        done = run_program(
            "import atexit\n"
            "atexit.register(lambda: print(rt.mdl_ri_destroy_register_callback(model, print, 'ran'), rt.reset_device_force(0)))\n"
            "import acl\nfrom acl import rt\n"
            "rt.set_device(0)\nstream, _ = rt.create_stream()\nrt.mdl_ri_capture_begin(stream, 2)\n"
            "model, _ = rt.mdl_ri_capture_end(stream)\n"
            "assert rt.mdl_ri_destroy_register_callback(model, print, 'ran') == 0\n"
        )
        self.assertEqual((0, "500000 0\n", ""), (done.returncode, done.stdout, done.stderr))


END = """
import acl, sys, time
from acl import _callbacks, rt
rt.set_device(0); stream, _ = rt.create_stream(); other, _ = rt.create_stream(); event, _ = rt.create_event()
def say(text): time.sleep(0.02); print(text, flush=True)
rt.mdl_ri_capture_begin(stream, 2); rt.launch_host_func(stream, say, "ran"); model, _ = rt.mdl_ri_capture_end(stream)
"""


class TestEnd(unittest.TestCase):
    """The interpreter ends while executions of models with functions are queued."""

    def end(self, text, before=""):
        done = run_program(before + END + text + "\nsys.exit(7)")
        self.assertEqual((7, ""), (done.returncode, done.stderr))
        return done.stdout.splitlines()

    def test_what_can_run_runs(self):
        lines = self.end("_callbacks._GRACE = 120\nfor _ in range(10): assert rt.mdl_ri_execute_async(model, stream) == 0")
        self.assertEqual(["ran"] * 10, lines)

    def test_what_is_late_does_not_run(self):
        """The event comes after functions of the program have had their time: nothing calls Python then."""
        lines = self.end(
            "_callbacks._GRACE = 0.1\nrt.launch_host_func(other, lambda _: gate.wait(), None)\n"
            "rt.record_event(event, other); rt.stream_wait_event(stream, event)\n"
            "for _ in range(10): assert rt.mdl_ri_execute_async(model, stream) == 0",
            before="import atexit, threading\ngate = threading.Event()\n"
            "atexit.register(lambda: (gate.set(), time.sleep(0.5)))\n",
        )
        self.assertEqual([], lines)


if __name__ == "__main__":
    unittest.main()
