"""Rules of memcpy_async and memcpy_async_with_condition, which share most of them."""

import threading

import acl
from acl import rt
from support import HANG
from test_rules import (
    BUFFERED, D2H, DEFAULT, GARBAGE, GLOBAL, H2D, H2H, INNER, NEW, OLD, RELAXED, ROOM,
    Family, fill, freed_device, freed_pinned, holds, ok,
)  # fmt: skip

SYS_DMA = acl.ACL_ERROR_RT_SYS_DMA  # what the task of fail_on ends with; the rules pass it on
SHARED = (9, 11, 12, 13, 14, 15, 17, 18, 19, 20, 21, 22, 23, 24)  # from the context on; the numbers are those of aclrtMemcpyAsync


class MemcpyAsync(Family):
    function, form = "aclrtMemcpyAsync", staticmethod(rt.memcpy_async)
    PASSED_ON = {18: SYS_DMA}

    SPOIL = {
        1: lambda s, a: {"count": 0},
        2: lambda s, a: {"dst": 0},
        3: lambda s, a: {"src": 0},
        4: lambda s, a: {"kind": INNER},
        5: lambda s, a: {"stream": GARBAGE},
        6: lambda s, a: {"dest_max": a["count"] - 1},
        8: lambda s, a: {"stranger": True},
        9: lambda s, a: {"kind": H2H},
        11: lambda s, a: {"kind": BUFFERED, "src": freed_device(), "dst": s.pin[1]},
        12: lambda s, a: {"kind": DEFAULT, "src": freed_pinned()},
        13: lambda s, a: {"kind": D2H, "src": s.page[0]},
        15: lambda s, a: {"src": a["dst"]},
        23: lambda s, a: {"stream": s.foreign},
    }

    def good(self):
        """64 pinned bytes to the device."""
        fill(self.s.dev[0], OLD)
        fill(self.s.pin[0], NEW)
        fill(self.s.page[0], NEW)
        return {"dst": self.s.dev[0], "dest_max": 64, "src": self.s.pin[0], "count": 64, "kind": H2D, "stream": self.s.stream}

    def arrived(self):
        return holds(self.s.dev[0], 64, NEW)

    def is_old(self):
        return holds(self.s.dev[0], ROOM, OLD)

    def refused(self, dst, src, kind, count=64):
        """Refused at the call, with nothing written."""
        self.expect({**self.good(), "dst": dst, "dest_max": count, "src": src, "count": count, "kind": kind})
        ok(rt.synchronize_stream(self.s.stream))
        self.assertTrue(self.is_old())

    def first(self):
        """The first rules, and more ways to break them."""
        more = {4: [{"kind": -1}, {"kind": 7}], 5: [{"stream": self.s.gone}, {"stream": self.s.home}], 6: [{"dest_max": 0}]}
        for number in range(1, 7):
            with self.rule(number):
                self.breaks(number)
                for change in more.get(number, []):
                    self.expect({**self.good(), **change})
                self.assertTrue(self.is_old())
        with self.rule(7), self.s.bound() as stream:
            self.expect({**self.good(), "kind": BUFFERED, "stream": stream})
        self.assertTrue(self.is_old())

    def shared(self, number):
        s = self.s
        if number == 15:
            self.breaks(15)
        elif number == 9:
            self.breaks(9)
            for dst, src in ((s.dev[0], s.page[0]), (s.page[1], s.page[0]), (s.dev[0], s.dev[1])):
                self.refused(dst, src, H2H)  # whatever the addresses are
        elif number == 11:
            self.breaks(11)
            self.refused(s.dev[0], s.dev[1], BUFFERED)
            self.refused(s.pin[1], s.pin[0], BUFFERED)
            self.refused(s.page[1], s.page[0], BUFFERED)
        elif number == 12:
            self.breaks(12)
            self.refused(s.dev[0], freed_device(), DEFAULT)
            self.refused(freed_device(), s.pin[0], DEFAULT)
            self.refused(s.dev[0], s.pin[0], DEFAULT, count=1 << 20)
            self.refused(s.dev[0], s.far, DEFAULT)
        elif number == 13:
            self.refused(s.dev[0], s.page[0], D2H)
            self.refused(s.page[1], s.dev[0], H2D)
        elif number == 14:
            self.refused(s.pin[1], s.pin[0], H2D)
            self.refused(s.pin[0], s.pin[0], DEFAULT)  # not even this is a success
            self.refused(s.page[1], s.page[0], DEFAULT)
        elif number == 23:
            self.breaks(23)
            # Of a buffered copy the second half is queued.
            self.expect({**self.good(), "kind": BUFFERED, "src": s.page[0], "stream": s.foreign})
        elif number == 24:
            self.fails_later()
        else:
            self.pageable(number)

    def pageable(self, number):
        """The call waits, reports what failed before, and copies."""
        s, arguments = self.s, {**self.good(), "src": self.s.page[0]}
        if number == 17:
            with s.capturing(RELAXED) as stream:
                self.expect({**arguments, "stream": stream})
            self.assertTrue(self.is_old())
        elif number == 20:
            with s.capturing(GLOBAL):
                self.expect(arguments)
            self.assertTrue(self.is_old())
        elif number == 18:
            self.code = self.code or SYS_DMA
            s.fail_on(s.stream)
            self.expect(arguments)
            self.assertTrue(self.is_old())
            ok(self.form(*arguments.values()))  # the failure was reported
            self.assertTrue(self.arrived())
        elif number == 19:
            with s.aborting():
                self.expect(arguments)
            self.assertTrue(self.is_old())
        elif number == 21:
            self.refused(s.dev[0], s.hole, H2D, count=ROOM)
            self.refused(s.hole, s.dev[0], D2H, count=ROOM)
            self.assertTrue(s.hole_is_whole())
        elif number == 22:
            self.expect({**arguments, "stream": s.foreign})  # which context it is of is not compared
            self.assertTrue(self.arrived())  # before anything was synchronised

    def fails_later(self):
        """A copy that fails while it runs is reported by the next synchronisation, once."""
        s, gone, gate = self.s, ok(rt.malloc(ROOM, 0)), threading.Event()
        arguments = {**self.good(), "src": gone}
        ok(rt.launch_host_func(s.stream, lambda _: gate.wait(HANG), None))
        ok(self.form(*arguments.values()))
        ok(rt.free(gone))  # too early
        rt.get_last_error(0)
        gate.set()
        self.assertEqual(self.code, rt.synchronize_stream(s.stream))
        self.assertEqual(self.code, rt.get_last_error(0))
        ok(rt.synchronize_stream(s.stream))
        self.assertTrue(self.is_old())
        s.fail_on(s.stream)
        self.expect({**arguments, "src": s.page[0]})  # which has to synchronise, and so reports it

    def on_A2(self):
        self.call()
        ok(rt.synchronize_stream(self.s.stream))
        self.assertTrue(self.arrived())
        self.first()
        self.prove(8)
        for number in SHARED:
            with self.rule(number):
                self.shared(number)

    def on_310(self):
        """The 310 accepts what it cannot do, and fails it when it runs."""
        s = self.s
        for src, dst in ((s.pin[0], s.pin[1]), (s.page[0], s.pin[1]), (s.page[0], s.dev[0])):
            self.call(src=src, dst=dst, kind=DEFAULT)
            self.assertEqual(SYS_DMA, rt.synchronize_stream(s.stream))
            self.assertTrue(self.is_old())
        self.call(kind=H2H)  # whatever the addresses are
        self.assertEqual(SYS_DMA, rt.synchronize_stream(s.stream))
        self.assertTrue(self.is_old())
        with self.rule(10):
            self.misaligned()

    def on_strict(self):
        with self.rule(25):
            self.refused(self.s.dev[0], self.s.page[0], H2D)
        with self.rule(9):  # refused here too, where it is accepted otherwise
            self.refused(self.s.dev[0], self.s.pin[0], H2H)

    def misaligned(self):
        """The 310 refuses addresses that are no multiples of 64."""
        s = self.s
        for by in (1, 8, 32, 63):
            self.refused(s.dev[0], s.pin[0] + by, H2D)
            self.refused(s.dev[0] + by, s.pin[0], H2D)


class MemcpyAsyncWithCondition(MemcpyAsync):
    function, form = "aclrtMemcpyAsyncWithCondition", staticmethod(rt.memcpy_async_with_condition)

    def on_A2(self):
        self.first()
        self.prove(8)
        with self.rule(10):
            for number in SHARED:
                self.like("aclrtMemcpyAsync", number)
                self.shared(number)

    def on_strict(self):
        with self.rule(10):
            self.like("aclrtMemcpyAsync", 25)
            self.refused(self.s.dev[0], self.s.page[0], H2D)

    def misaligned(self):
        self.like("aclrtMemcpyAsync", 10)
        super().misaligned()
