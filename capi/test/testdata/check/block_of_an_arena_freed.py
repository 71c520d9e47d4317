"""Blocks are cut from one allocation, and one of them is freed alone.

finds: invalid-free (error)
offence: called acl.rt.free in main at OFFENCE
other: allocated acl.rt.malloc in main at ALLOCATED
bytes: 4096+12288 of device 16384
"""

import acl

from program import FIXED, HUGE_FIRST, finish, ok, start

BLOCK, BLOCKS = 4096, 4


def main():
    stream = start()
    arena = ok(acl.rt.malloc(BLOCK * BLOCKS, HUGE_FIRST))  # ALLOCATED
    blocks = [arena + i * BLOCK for i in range(BLOCKS)]
    if not FIXED:
        acl.rt.free(blocks[1])  # OFFENCE
    ok(acl.rt.free(arena))
    finish(stream)


main()
