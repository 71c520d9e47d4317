"""One buffer, two processes. The first fills device memory and gives the second a key for it; the second sees the same bytes,
not a copy of them, and what it writes the first sees.

The second process has to begin from nothing (spawn): one that was only forked could not use AscendCL, which its parent has
in use.
"""

import multiprocessing

import acl

from check import expect, ok

ACL_MEM_MALLOC_HUGE_FIRST = 0
ACL_MEMCPY_HOST_TO_DEVICE = 1
ACL_MEMCPY_DEVICE_TO_HOST = 2

SIZE, KEY = 2 * 1024 * 1024, 65
FIRST = bytes(i % 251 for i in range(251)) * (SIZE // 251 + 1)
SECOND = bytes(i % 241 for i in range(241)) * (SIZE // 241 + 1)


def write(device, content):
    ok(acl.rt.memcpy(device, SIZE, acl.util.bytes_to_ptr(content), SIZE, ACL_MEMCPY_HOST_TO_DEVICE))


def read(device):
    seen = bytes(SIZE)
    ok(acl.rt.memcpy(acl.util.bytes_to_ptr(seen), SIZE, device, SIZE, ACL_MEMCPY_DEVICE_TO_HOST))
    return seen


def visit(connection):
    """The second process."""
    key = connection.recv()
    ok(acl.init())
    ok(acl.rt.set_device(0))
    device = ok(acl.rt.ipc_mem_import_by_key(key, 0))
    expect(read(device) == FIRST[:SIZE], "the second process sees other bytes")
    print(f"The second process read the {SIZE} bytes that the first had written.")
    write(device, SECOND)
    ok(acl.rt.ipc_mem_close(key))  # importers first, the exporter last
    ok(acl.rt.reset_device(0))
    ok(acl.finalize())


def main():
    spawn = multiprocessing.get_context("spawn")
    here, there = spawn.Pipe()
    other = spawn.Process(target=visit, args=(there,))
    other.start()

    ok(acl.init())
    ok(acl.rt.set_device(0))
    device = ok(acl.rt.malloc(SIZE, ACL_MEM_MALLOC_HUGE_FIRST))
    write(device, FIRST)
    key = ok(acl.rt.ipc_mem_get_export_key(device, SIZE, KEY, 0))
    ok(acl.rt.ipc_mem_set_import_pid(key, [other.pid]))  # only processes on the list may import it
    here.send(key)
    other.join()
    expect(other.exitcode == 0, "the second process failed")

    expect(read(device) == SECOND[:SIZE], "what the second process wrote is not there")
    print("It changed every byte, and the first process sees the change.")
    ok(acl.rt.ipc_mem_close(key))
    ok(acl.rt.free(device))
    ok(acl.rt.reset_device(0))
    ok(acl.finalize())


if __name__ == "__main__":
    main()
