"""One block of a KV cache, two servers. Server 0 has it in device memory and exports a fabric handle, 128 bytes that travel by a file
here and by any means between machines. Server 1 maps the same memory, reads it and changes it. Server 0 does nothing for that.

    ropeway run --pod 2 python3 two_servers.py /tmp/block
"""

import os
import sys
import time

import acl

from check import expect, ok

ACL_MEMCPY_HOST_TO_DEVICE = 1
ACL_MEMCPY_DEVICE_TO_HOST = 2
ACL_MEM_SHARE_HANDLE_TYPE_FABRIC = 2
ANY_PROCESS = 1  # may import; with 0 those that are named

SIZE = 4 * 1024 * 1024
FIRST = bytes(i % 251 for i in range(251)) * (SIZE // 251 + 1)
SECOND = bytes(i % 241 for i in range(241)) * (SIZE // 241 + 1)
DEVICE = {"id": 0, "type": 1}


def place(handle):
    """Addresses for the memory, which the device may use."""
    block = ok(acl.rt.reserve_mem_address(SIZE, 0, 0, 0))
    ok(acl.rt.map_mem(block, SIZE, 0, handle, 0))
    return block


def give_up(block, handle):
    ok(acl.rt.unmap_mem(block))
    ok(acl.rt.release_mem_address(block))
    ok(acl.rt.free_physical(handle))


def write(device, content):
    ok(acl.rt.memcpy(device, SIZE, acl.util.bytes_to_ptr(content), SIZE, ACL_MEMCPY_HOST_TO_DEVICE))


def read(device):
    seen = bytes(SIZE)
    ok(acl.rt.memcpy(acl.util.bytes_to_ptr(seen), SIZE, device, SIZE, ACL_MEMCPY_DEVICE_TO_HOST))
    return seen


def own(file):
    """The server that has the block."""
    prop = {"handleType": 0, "allocationType": 0, "memAttr": 4, "location": DEVICE, "reserve": 0}
    handle = ok(acl.rt.malloc_physical(SIZE, prop, 0))
    block = place(handle)
    write(block, FIRST)
    fabric = ok(acl.rt.mem_export_to_shareable_handle_v2(handle, ANY_PROCESS, ACL_MEM_SHARE_HANDLE_TYPE_FABRIC))
    with open(file + ".part", "wb") as f:
        f.write(fabric)
    os.rename(file + ".part", file)
    while os.path.exists(file):  # the other server removes it when it is done
        time.sleep(0.001)
    expect(read(block) == SECOND[:SIZE], "what the other server wrote is not there")
    print("It changed every byte, and server 0 sees the change.")
    give_up(block, handle)


def use(file):
    """The server that uses it."""
    while not os.path.exists(file):
        time.sleep(0.001)
    with open(file, "rb") as f:
        fabric = f.read()
    handle = ok(acl.rt.mem_import_from_shareable_handle_v2(fabric, ACL_MEM_SHARE_HANDLE_TYPE_FABRIC, 0))
    block = place(handle)
    expect(read(block) == FIRST[:SIZE], "server 1 sees other bytes")
    print(f"Server 1 read the {SIZE} bytes of server 0.")
    write(block, SECOND)
    give_up(block, handle)
    os.remove(file)


def main():
    ok(acl.init())
    ok(acl.rt.set_device(0))
    (own if os.environ["ROPEWAY_POD_SERVER"] == "0" else use)(sys.argv[1])
    ok(acl.rt.reset_device(0))
    ok(acl.finalize())


if __name__ == "__main__":
    main()
