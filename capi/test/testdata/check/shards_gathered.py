"""Shards of all devices are gathered on device 0, which may not reach the others.

finds: peer-access (error)
offence: called acl.rt.memcpy_async in gather at OFFENCE
other: allocated acl.rt.malloc in main at ALLOCATED
"""

import acl

from program import D2D, FIXED, HUGE_FIRST, finish, ok, start

SHARD, DEVICES = 4096, 2


def gather(whole, shards, stream):
    for device, shard in enumerate(shards):
        if FIXED and device > 0:
            ok(acl.rt.device_enable_peer_access(device, 0))
        acl.rt.memcpy_async(whole + device * SHARD, SHARD, shard, SHARD, D2D, stream)  # OFFENCE


def main():
    stream = start()
    shards = []
    for device in range(DEVICES):
        ok(acl.rt.set_device(device))
        shards.append(ok(acl.rt.malloc(SHARD, HUGE_FIRST)))  # ALLOCATED
        ok(acl.rt.memset(shards[-1], SHARD, device, SHARD))
    ok(acl.rt.set_device(0))
    whole = ok(acl.rt.malloc(SHARD * DEVICES, HUGE_FIRST))
    gather(whole, shards, stream)
    ok(acl.rt.synchronize_stream(stream))
    for memory in [whole, *shards]:
        ok(acl.rt.free(memory))
    ok(acl.rt.reset_device(1))
    finish(stream)


main()
