"""Rules of the copies whose addresses lie in device memory: by descriptor, and by cells with offsets."""

import struct

import acl
from acl import rt, util
from test_rules import (
    D2D, GARBAGE, H2D, INNER, INTER, NEW, OLD, ROOM,
    Family, fill, freed_device, holds, ok, read,
)  # fmt: skip

PARAM_INVALID = acl.ACL_ERROR_RT_PARAM_INVALID  # what the rules pass on


class GetMemcpyDescSize(Family):
    function, form = "aclrtGetMemcpyDescSize", staticmethod(rt.get_memcpy_desc_size)

    def kinds(self, number, *kinds):
        with self.rule(number):
            for kind in kinds:
                self.expect({"kind": kind})

    def on_A2(self):
        self.has(32)

    def on_950(self):
        self.has(64)

    def has(self, size):
        self.assertEqual((size, 0), rt.get_memcpy_desc_size(INNER))
        self.kinds(2, 8, -1)
        self.kinds(4, *(kind for kind in range(8) if kind != INNER))

    def on_310P(self):
        self.kinds(2, 8, -1)
        self.kinds(3, INNER, H2D)


class SetMemcpyDesc(Family):
    function, form = "aclrtSetMemcpyDesc", staticmethod(rt.set_memcpy_desc)
    PASSED_ON = {11: PARAM_INVALID}

    SPOIL = {
        1: lambda s, a: {"desc": 0},
        2: lambda s, a: {"kind": 8},
        3: lambda s, a: {"src_addr": 0},
        4: lambda s, a: {"dst_addr": 0},
        5: lambda s, a: {"count": 0},
        6: lambda s, a: {"config": s.page[0]},
        8: lambda s, a: {"kind": D2D},
        9: lambda s, a: {"count": 4 << 30},
        10: lambda s, a: {"desc": a["desc"] + 32},
        11: lambda s, a: {"dst_addr": freed_device()},
        12: lambda s, a: {"desc": s.pin[0]},
        13: lambda s, a: {"src_addr": s.pin[0]},
        14: lambda s, a: {"stranger": True},
    }

    def good(self):
        """A descriptor in dev[0], for 64 bytes from dev[1] to dev[2]."""
        s = self.s
        fill(s.dev[0], 0)
        fill(s.dev[1], NEW)
        fill(s.dev[2], OLD)
        return {"desc": s.dev[0], "kind": INNER, "src_addr": s.dev[1], "dst_addr": s.dev[2], "count": 64, "config": 0}

    def on_A2(self):
        s = self.s
        self.assertEqual(s.dev[0], self.call())
        more = {
            11: [{"desc": freed_device()}, {"src_addr": freed_device()}, {"count": 1 << 20}],
            12: [{"desc": s.page[0]}],
            13: [{"src_addr": s.page[0]}, {"dst_addr": s.pin[0]}, {"src_addr": s.far}, {"dst_addr": s.far}],
        }
        for number in range(1, 15):
            if number == 7:
                continue
            with self.rule(number):
                self.breaks(number)
                for change in more.get(number, []):
                    self.expect({**self.good(), **change})
                self.assertTrue(holds(s.dev[0], ROOM, 0))

    def on_310P(self):
        self.prove(7)


class MemcpyAsyncWithDesc(Family):
    function, form = "aclrtMemcpyAsyncWithDesc", staticmethod(rt.memcpy_async_with_desc)

    SPOIL = {
        1: lambda s, a: {"desc": 0},
        2: lambda s, a: {"kind": 8},
        3: lambda s, a: {"stream": 0},
        5: lambda s, a: {"stream": GARBAGE},
        6: lambda s, a: {"kind": INTER},
        7: lambda s, a: {"desc": s.pin[0] + 32},
        8: lambda s, a: {"desc": a["desc"] + 32},
        9: lambda s, a: {"stranger": True},
        10: lambda s, a: {"stream": s.foreign},
    }
    described = True  # whether the product can set a descriptor

    def good(self):
        """A descriptor in dev[0] that is set, for 64 bytes from dev[1] to dev[2]."""
        s = self.s
        fill(s.dev[0], 0)
        fill(s.dev[1], NEW)
        fill(s.dev[2], OLD)
        if self.described:
            ok(rt.set_memcpy_desc(s.dev[0], INNER, s.dev[1], s.dev[2], 64, 0))
        return {"desc": s.dev[0], "kind": INNER, "stream": s.stream}

    def is_old(self):
        return holds(self.s.dev[2], ROOM, OLD)

    def works(self):
        self.call()
        ok(rt.synchronize_stream(self.s.stream))
        self.assertTrue(holds(self.s.dev[2], 64, NEW) and holds(self.s.dev[2] + 64, 64, OLD, 64))

    def words(self):
        return struct.unpack("<3I", read(self.s.dev[0], 12))

    def on_A2(self):
        s = self.s
        self.works()
        more = {
            5: [{"stream": s.gone}],
            7: [{"desc": desc} for desc in (freed_device(), s.page[0], s.pin[0], s.far)],
        }
        for number in range(1, 11):
            if number == 4:
                continue
            with self.rule(number):
                self.breaks(number)
                for change in more.get(number, []):
                    self.expect({**self.good(), **change})
                ok(rt.synchronize_stream(s.stream))
                self.assertTrue(self.is_old())
                if number == 10:  # what the call writes into the descriptor
                    arguments = self.good()
                    self.assertEqual((0, 0, 0), self.words())
                    ok(self.form(*arguments.values()))
                    self.assertEqual((1, 0, 0), self.words())
                    ok(rt.synchronize_stream(s.stream))

    def on_950(self):
        self.works()

    def on_310P(self):
        self.described = False
        self.prove(4)
        with self.rule(4):
            self.expect(self.good())


class MemcpyAsyncWithOffset(Family):
    function, form = "aclrtMemcpyAsyncWithOffset", staticmethod(rt.memcpy_async_with_offset)
    PASSED_ON = {14: PARAM_INVALID}

    SPOIL = {
        1: lambda s, a: {"count": 0},
        2: lambda s, a: {"kind": D2D},
        4: lambda s, a: {"stream": GARBAGE},
        5: lambda s, a: {"dst": 0},
        6: lambda s, a: {"src": 0},
        7: lambda s, a: {"dest_max": a["count"] - 1},
        8: lambda s, a: {"count": (4 << 30) + 1, "dest_max": 1 << 62},
        9: lambda s, a: {"src_data_offset": 1 << 48},
        10: lambda s, a: {"dst_data_offset": 1 << 48, "dest_max": 1 << 62},
        11: lambda s, a: {"dst_data_offset": a["dest_max"]},
        12: lambda s, a: {"dst_data_offset": a["dest_max"] - a["count"] + 1},
        13: lambda s, a: {"stranger": True},
        14: lambda s, a: {"src": freed_device()},
        15: lambda s, a: {"stream": s.foreign},
    }

    def good(self):
        """The cells are dev[0] and dev[1], what they point to dev[2] and dev[3]."""
        s = self.s
        fill(s.dev[2], OLD)
        fill(s.dev[3], NEW)
        for cell, base in ((s.dev[0], s.dev[2]), (s.dev[1], s.dev[3])):
            address = struct.pack("<Q", base)
            ok(rt.memcpy(cell, 8, util.bytes_to_ptr(address), 8, H2D))
        return {
            "dst": s.dev[0], "dest_max": 128, "dst_data_offset": 32,
            "src": s.dev[1], "count": 64, "src_data_offset": 16, "kind": INNER, "stream": s.stream,
        }  # fmt: skip

    def is_old(self):
        return holds(self.s.dev[2], ROOM, OLD)

    def on_A2(self):
        s = self.s
        self.call()
        ok(rt.synchronize_stream(s.stream))
        self.assertTrue(holds(s.dev[2], 32, OLD) and holds(s.dev[2] + 32, 64, NEW, 16) and holds(s.dev[2] + 96, 32, OLD, 96))
        more = {
            2: [{"kind": kind} for kind in range(-1, 9) if kind != INNER],
            14: [{"dst": freed_device()}],
        }
        for number in range(1, 16):
            if number == 3:
                continue
            with self.rule(number):
                self.breaks(number)
                for change in more.get(number, []):
                    self.expect({**self.good(), **change})
                ok(rt.synchronize_stream(s.stream))
                self.assertTrue(self.is_old())
        # The cells are looked at again when the copy runs.
        arguments = self.good()
        fill(s.dev[1], 1)
        ok(self.form(*arguments.values()))
        self.assertEqual(acl.ACL_ERROR_RT_SYS_DMA, rt.synchronize_stream(s.stream))
        self.assertTrue(self.is_old())

    def on_310P(self):
        self.prove(3)
        with self.rule(3):
            self.expect(self.good())
