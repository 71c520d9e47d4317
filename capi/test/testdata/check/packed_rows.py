"""Rows of 96 bytes lie side by side on the device: every second one begins off the 64-byte grid.

finds: misaligned (warning)
offence: submitted acl.rt.memcpy_async in main at OFFENCE on stream 1, task 2
bytes: 96+96 of device 256
"""

import acl

from program import D2H, FIXED, HUGE_FIRST, finish, ok, start

ROW = 96
PITCH = 128 if FIXED else 96


def main():
    stream = start()
    host = ok(acl.rt.malloc_host(256))
    rows = ok(acl.rt.malloc(256, HUGE_FIRST))
    ok(acl.rt.memset(rows, 256, 1, 256))
    for i in range(2):
        ok(acl.rt.memcpy_async(host + i * 128, ROW, rows + i * PITCH, ROW, D2H, stream))  # OFFENCE
    ok(acl.rt.synchronize_stream(stream))
    ok(acl.rt.free_host(host))
    ok(acl.rt.free(rows))
    finish(stream)


main()
