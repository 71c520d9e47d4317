"""A prompt is longer than the pinned buffer for its tokens. ctypes.memmove writes all of it.

finds: host-out-of-bounds (error)
offence: written in put at OFFENCE
other: allocated acl.rt.malloc_host in main at ALLOCATED
bytes: 4096+? of pinned 4096
"""

import array
import ctypes

import acl

from program import FIXED, finish, ok, start

ROOM = 4096


def put(staging, tokens):
    data = tokens.tobytes()
    ctypes.memmove(staging, data, len(data))  # OFFENCE


def main():
    stream = start()
    staging = ok(acl.rt.malloc_host(ROOM))  # ALLOCATED
    prompt = array.array("i", range(1500))
    put(staging, prompt[: ROOM // 4] if FIXED else prompt)
    ok(acl.rt.free_host(staging))
    finish(stream)


main()
