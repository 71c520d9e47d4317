"""Rules of memcpy."""

from acl import rt
from test_rules import (
    D2D, DEFAULT, GLOBAL, H2D, INNER, NEW, OLD, RELAXED, ROOM, THREAD_LOCAL,
    Family, fill, freed_device, freed_pinned, holds, ok,
)  # fmt: skip


class Memcpy(Family):
    function, form = "aclrtMemcpy", staticmethod(rt.memcpy)

    SPOIL = {
        1: lambda s, a: {"count": 0},
        2: lambda s, a: {"dst": 0},
        3: lambda s, a: {"src": 0},
        4: lambda s, a: {"kind": INNER},
        5: lambda s, a: {"dest_max": 0},
        6: lambda s, a: {"dest_max": a["count"] - 1},
        7: lambda s, a: {"dst": a["src"]},
        8: lambda s, a: {"stranger": True},
        11: lambda s, a: {"src": freed_device()},
    }

    def good(self):
        """64 pinned bytes to the device."""
        fill(self.s.dev[0], OLD)
        fill(self.s.pin[0], NEW)
        return {"dst": self.s.dev[0], "dest_max": 64, "src": self.s.pin[0], "count": 64, "kind": H2D}

    def refused(self, dst, src, count=64):
        self.expect({**self.good(), "dst": dst, "dest_max": count, "src": src, "count": count, "kind": DEFAULT})
        self.assertTrue(holds(self.s.dev[0], ROOM, OLD))

    def on_A2(self):
        s = self.s
        self.call()
        self.assertTrue(holds(s.dev[0], 64, NEW) and holds(s.dev[0] + 64, 64, OLD, 64))
        self.prove(1, 2, 3, 5, 6, 7, 8)
        with self.rule(4):
            self.breaks(4)
            for kind in (-1, -(2**31), 6, 7, 8, 2**31 - 1):
                self.expect({**self.good(), "kind": kind})
            self.assertTrue(holds(s.dev[0], ROOM, OLD))
        with self.rule(9):
            arguments = self.good()
            with s.aborting():
                self.expect(arguments)
                self.expect({**arguments, "src": s.far})  # before the addresses are looked at
            self.assertTrue(holds(s.dev[0], ROOM, OLD))
        with self.rule(10):
            arguments = self.good()
            for mode in (GLOBAL, THREAD_LOCAL):
                with s.capturing(mode):
                    self.expect(arguments)
            self.assertTrue(holds(s.dev[0], ROOM, OLD))
            with s.capturing(RELAXED):
                ok(self.form(*arguments.values()))
        with self.rule(11):
            self.breaks(11)
            self.refused(s.dev[0], freed_pinned())
            self.refused(freed_device(), s.pin[0])
            self.refused(s.dev[0], s.dev[1], 1 << 20)
            self.refused(s.dev[0] + ROOM - 64, s.page[0], 512)  # an allocation has a little more room than was asked for
            self.refused(s.dev[0], s.hole, ROOM)
            self.refused(s.dev[0], 16)
            self.refused(-64, s.pin[0])
            self.refused(s.hole, s.dev[0], ROOM)
            self.refused(s.dev[0], s.far)
            self.refused(s.far, s.dev[0])
            self.assertTrue(s.hole_is_whole())

    def on_A3(self):
        """Copies between devices need no permission there."""
        fill(self.s.dev[0], NEW)
        self.assertEqual(0, rt.memcpy(self.s.far, 64, self.s.dev[0], 64, D2D))
        self.assertTrue(holds(self.s.far, 64, NEW))
