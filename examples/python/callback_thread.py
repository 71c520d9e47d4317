"""Callbacks: functions of the program as tasks of a stream, run by a thread that does nothing else.

This is a program for pyACL, and runs on hardware as it is.
"""

import threading

import acl

from check import expect, ok

ACL_MEM_MALLOC_HUGE_FIRST = 0
ACL_MEMCPY_DEVICE_TO_HOST = 2
ACL_CALLBACK_BLOCK = 1
ACL_ERROR_RT_REPORT_TIMEOUT = 507012

ROUNDS, SIZE = 5, 64 * 1024

good, threads = [], set()  # the rounds that were right, and the threads that checked them
subscribed, over = threading.Event(), threading.Event()


def inspect(task):
    """A callback. It must not call acl.rt: the stream waits for it, so it would wait for itself. It may do all else."""
    landing, number = task
    if acl.util.ptr_to_bytes(landing, SIZE) == bytes([ord("A") + number]) * SIZE:
        good.append(number)
    threads.add(threading.get_ident())


def serve(args):
    """The thread that runs the callbacks. It needs a context like any thread, and takes that of the main thread."""
    (context,) = args
    subscribed.wait()  # a thread that asks for reports and is not subscribed is refused
    ok(acl.rt.set_context(context))
    while not over.is_set():
        # Runs what has come; or waits for it, here a tenth of a second. Nothing in time is no error.
        ret = acl.rt.process_report(100)
        if ret != ACL_ERROR_RT_REPORT_TIMEOUT:
            ok(ret)


ok(acl.init())
ok(acl.rt.set_device(0))
context = ok(acl.rt.get_context())
stream = ok(acl.rt.create_stream())
landing = ok(acl.rt.malloc_host(SIZE))  # pinned, so that the stream and not this thread does the work
device = ok(acl.rt.malloc(SIZE, ACL_MEM_MALLOC_HUGE_FIRST))

# start_thread gives fn one argument, whatever it is; a list is the custom. What it returns is the id that a subscription
# wants (threading.get_ident() of any thread is the same thing).
reporter = ok(acl.util.start_thread(serve, [context]))
ok(acl.rt.subscribe_report(reporter, stream))
subscribed.set()

# BLOCK holds the stream until the callback has returned, so the next round cannot overwrite what is being looked at. With
# NO_BLOCK (0) the stream would go on, and every round would need memory of its own.
for number in range(ROUNDS):
    ok(acl.rt.memset_async(device, SIZE, ord("A") + number, SIZE, stream))
    ok(acl.rt.memcpy_async(landing, SIZE, device, SIZE, ACL_MEMCPY_DEVICE_TO_HOST, stream))
    ok(acl.rt.launch_callback(inspect, (landing, number), ACL_CALLBACK_BLOCK, stream))

ok(acl.rt.synchronize_stream(stream))  # callbacks are tasks like others: they have run, too
over.set()
ok(acl.util.stop_thread(reporter))  # waits for serve to return; raises if serve did
ok(acl.rt.unsubscribe_report(reporter, stream))
expect(good == list(range(ROUNDS)), "the reporter saw a round that was not right")
expect(threads == {reporter}, "a callback ran on another thread")
print(f"The report thread checked all {ROUNDS} rounds, byte by byte.")

ok(acl.rt.free(device))
ok(acl.rt.free_host(landing))
ok(acl.rt.destroy_stream(stream))
ok(acl.rt.reset_device(0))
ok(acl.finalize())
