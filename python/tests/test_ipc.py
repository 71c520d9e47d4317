"""Memory shared between processes that multiprocessing starts by spawn."""

import multiprocessing
import os
import signal
import unittest

import acl
from acl import rt
from support import D2H, HANG, DeviceCase

SIZE = 1 << 20
SPAWN = multiprocessing.get_context("spawn")
REFUSED, INVALID = 507899, 107000


def content(ptr, offset, size):
    """Bytes of device memory."""
    seen = bytes(size)
    ret = rt.memcpy(acl.util.bytes_to_ptr(seen), size, ptr + offset, size, D2H)
    assert ret == 0, acl.get_recent_err_msg()
    return seen


def importer(pipe):
    """Imports keys that come through the pipe, fills what they name as it is asked to, and replies with what it saw."""
    acl.init()
    rt.set_device(0)
    pipe.send(os.getpid())
    while True:
        key, offset, value = pipe.recv()
        if key is None:
            break
        ptr, ret = rt.ipc_mem_import_by_key(key, 0)
        if ret != 0:
            pipe.send((ret, None))
            continue
        seen = content(ptr, offset, 100)
        ret = rt.memset(ptr + offset, 100, value, 100)
        rt.ipc_mem_close(key)
        pipe.send((ret, seen))
    rt.reset_device(0)


def exporter(pipe):
    """Exports memory for everybody, sends the key, and waits to be killed."""
    acl.init()
    rt.set_device(0)
    ptr, _ = rt.malloc(SIZE, 0)
    rt.memset(ptr, SIZE, 9, SIZE)
    pipe.send(rt.ipc_mem_get_export_key(ptr, SIZE, 65, 1))
    pipe.recv()


class TestSpawnedProcesses(DeviceCase):
    def spawn(self, target):
        here, there = SPAWN.Pipe()
        process = SPAWN.Process(target=target, args=(there,))
        process.start()
        there.close()
        self.addCleanup(here.close)
        self.addCleanup(process.join, HANG)
        self.addCleanup(process.kill)
        return process, here

    def hear(self, pipe):
        self.assertTrue(pipe.poll(HANG), "the other process does not answer")
        return pipe.recv()

    def test_both_see_what_the_other_writes(self):
        process, pipe = self.spawn(importer)
        pid = self.hear(pipe)
        self.assertEqual(process.pid, pid)
        ptr = self.ok(rt.malloc(SIZE, 0))
        self.ok(rt.memset(ptr, SIZE, 1, SIZE))
        key = self.ok(rt.ipc_mem_get_export_key(ptr, SIZE, 65, 0))
        pipe.send((key, 0, 2))
        self.assertEqual((REFUSED, None), self.hear(pipe))
        self.ok(rt.ipc_mem_set_import_pid(key, [pid]))
        for offset, value in ((0, 2), (5000, 3)):
            pipe.send((key, offset, value))
            self.assertEqual((0, bytes([1]) * 100), self.hear(pipe))
            self.assertEqual(bytes([value]) * 100, content(ptr, offset, 100))
        self.ok(rt.ipc_mem_close(key))
        pipe.send((key, 0, 4))
        self.assertEqual((REFUSED, None), self.hear(pipe))
        pipe.send((None, 0, 0))
        process.join(HANG)
        self.assertEqual(0, process.exitcode)
        self.ok(rt.free(ptr))

    def test_an_exporter_that_is_killed(self):
        process, pipe = self.spawn(exporter)
        key = self.ok(self.hear(pipe))
        ptr = self.ok(rt.ipc_mem_import_by_key(key, 0))
        process.kill()
        process.join(HANG)
        self.assertEqual(-signal.SIGKILL, process.exitcode)
        self.assertEqual(bytes([9]) * 100, content(ptr, 0, 100))
        self.assertEqual(REFUSED, rt.ipc_mem_import_by_key(key, 0)[1])
        self.ok(rt.ipc_mem_close(key))
        self.assertEqual(INVALID, rt.ipc_mem_close(key))


if __name__ == "__main__":
    unittest.main()
