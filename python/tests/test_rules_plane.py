"""Rules of memcpy2d and memcpy2d_async."""

import acl
from acl import rt
from test_rules import (
    D2D, D2H, DEFAULT, GARBAGE, GLOBAL, H2D, H2H, NEW, OLD, PAGE, RELAXED,
    Family, fill, freed_device, freed_pinned, holds, ok,
)  # fmt: skip

MOST_ROWS, WIDEST = 5 * 1024 * 1024, 5000000
PARAM_INVALID, SYS_DMA = acl.ACL_ERROR_RT_PARAM_INVALID, acl.ACL_ERROR_RT_SYS_DMA  # what the rules pass on


def too_wide(s, a):
    return {"width": WIDEST + 1, "spitch": WIDEST + 1, "dpitch": WIDEST + 1}


FIRST = {
    1: lambda s, a: {"width": 0},
    2: lambda s, a: {"dst": 0},
    3: lambda s, a: {"src": 0},
    4: lambda s, a: {"spitch": a["width"] - 1},
    5: lambda s, a: {"kind": H2H},
}


class Memcpy2d(Family):
    function, form = "aclrtMemcpy2d", staticmethod(rt.memcpy2d)
    PASSED_ON = {10: PARAM_INVALID}

    SPOIL = {
        **FIRST,
        6: lambda s, a: {"height": MOST_ROWS + 1},
        7: too_wide,
        8: lambda s, a: {"kind": D2D},
        9: lambda s, a: {"stranger": True},
        10: lambda s, a: {"src": freed_pinned()},
        11: lambda s, a: {"dst": s.pin[1], "src": s.pin[0]},
        13: lambda s, a: {"src": s.hole + PAGE},
    }

    def good(self):
        """Four rows of 8 bytes from pinned memory (16 apart) to the device (32 apart)."""
        fill(self.s.dev[0], OLD)
        fill(self.s.pin[0], NEW)
        fill(self.s.page[0], NEW)
        return {"dst": self.s.dev[0], "dpitch": 32, "src": self.s.pin[0], "spitch": 16, "width": 8, "height": 4, "kind": H2D}

    def is_old(self):
        return holds(self.s.dev[0], 256, OLD)

    def arrived(self):
        rows = [self.s.dev[0] + 32 * row for row in range(4)]
        return all(holds(p, 8, NEW, 16 * i) and holds(p + 8, 24, OLD, 32 * i + 8) for i, p in enumerate(rows))

    def more(self, number):
        """More ways to break the first rules."""
        changes = {
            1: [{"height": 0, "dst": 0}],
            4: [{"dpitch": 7}],
            5: [{"kind": kind} for kind in (-1, 0, 5, 6, 7, 8, 2**31 - 1)],
        }
        for change in changes.get(number, []):
            self.expect({**self.good(), **change})
        self.assertTrue(self.is_old())

    def bad_memory(self):
        """Memory that is gone, too short, or not there."""
        s = self.s
        for change in (
            {"dst": freed_device()},
            {"height": 1000},
            {"spitch": 1 << 62},
            {"dpitch": -1},
            {"src": s.hole, "spitch": PAGE},
            {"src": s.dev[0], "dst": s.hole, "dpitch": PAGE, "kind": D2H},
        ):
            self.expect({**self.good(), **change})
            ok(rt.synchronize_stream(s.stream))
            self.assertTrue(self.is_old() and s.hole_is_whole())

    def on_A2(self):
        s = self.s
        self.call()
        self.assertTrue(self.arrived())
        for number in range(1, 10):
            with self.rule(number):
                self.breaks(number)
                self.more(number)
        with self.rule(10):
            self.breaks(10)
            self.expect({**self.good(), "dst": freed_device()})
        with self.rule(11):
            self.breaks(11)
            for src, dst in ((s.pin, s.pin), (s.dev, s.dev), (s.pin, s.page), (s.page, s.pin), (s.page, s.page)):
                self.expect({**self.good(), "src": src[0], "dst": dst[1], "kind": DEFAULT})
            self.assertTrue(self.is_old())
        with self.rule(12):
            arguments = self.good()
            with s.capturing(GLOBAL):
                self.expect(arguments)
            self.assertTrue(self.is_old())
        with self.rule(13):
            self.breaks(13)
            self.bad_memory()

    def on_RC(self):
        """There are none, and that is said before the kind and the context are looked at."""
        for kind in (H2D, D2H, D2D, DEFAULT):
            arguments = {**self.good(), "kind": kind}
            self.assertEqual(acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, self.form(*arguments.values()))
            arguments["height"] = MOST_ROWS + 1
            self.assertEqual(PARAM_INVALID, self.form(*arguments.values()))


class Memcpy2dAsync(Memcpy2d):
    function, form = "aclrtMemcpy2dAsync", staticmethod(rt.memcpy2d_async)
    PASSED_ON = {11: PARAM_INVALID, 16: SYS_DMA}

    SPOIL = {
        **FIRST,
        6: lambda s, a: {"stream": GARBAGE},
        7: lambda s, a: {"stream": 0, "stranger": True},
        8: lambda s, a: {"height": MOST_ROWS + 1},
        9: too_wide,
        10: lambda s, a: {"stranger": True},
        11: lambda s, a: {"src": freed_pinned()},
        12: lambda s, a: {"src": s.page[0], "dst": s.dev[0], "kind": D2H},
        13: lambda s, a: {"src": s.pin[0], "dst": s.pin[1]},
        19: lambda s, a: {"stream": s.foreign},
    }

    def good(self):
        return {**super().good(), "stream": self.s.stream}

    def on_A2(self):
        s = self.s
        self.call()
        ok(rt.synchronize_stream(s.stream))
        self.assertTrue(self.arrived())
        for number in range(1, 14):
            with self.rule(number):
                self.breaks(number)
                self.more(number)
                if number == 11:
                    self.bad_memory()
        with self.rule(16):
            arguments = {**self.good(), "src": s.page[0]}
            s.fail_on(s.stream)
            self.expect(arguments)
            self.assertTrue(self.is_old())
            ok(self.form(*arguments.values()))  # the failure was reported
            self.assertTrue(self.arrived())
        with self.rule(15):
            arguments = {**self.good(), "src": s.page[0]}
            with s.capturing(RELAXED) as stream:
                self.expect({**arguments, "stream": stream})
            self.assertTrue(self.is_old())
        with self.rule(17):
            arguments = {**self.good(), "src": s.page[0]}
            with s.capturing(GLOBAL):
                self.expect(arguments)
            self.assertTrue(self.is_old())
        with self.rule(18):
            self.expect({**self.good(), "src": s.page[0], "stream": s.foreign})
            self.assertTrue(self.arrived())  # before anything was synchronised
        with self.rule(19):
            self.breaks(19)
            self.expect({**self.good(), "src": s.dev[1], "kind": D2D, "stream": s.foreign})
            self.assertTrue(self.is_old())

    def on_strict(self):
        with self.rule(20):
            self.expect({**self.good(), "src": self.s.page[0]})
            self.assertTrue(self.is_old())
        with self.rule(21):
            self.expect({**self.good(), "src": self.s.dev[1], "kind": D2D})
            self.assertTrue(self.is_old())

    def on_310P(self):
        """There the default stream is not taken at all."""
        with self.rule(7):
            self.expect({**self.good(), "stream": 0})
            self.assertTrue(self.is_old())
