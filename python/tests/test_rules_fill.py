"""Rules of the fills: memset, memset_async, memset_d32 and memset_d32_async."""

import acl
from acl import rt
from test_rules import GARBAGE, GLOBAL, OLD, ROOM, Family, fill, freed_device, freed_pinned, holds, ok, read

VALUE = 0x12345678
PARAM_INVALID = acl.ACL_ERROR_RT_PARAM_INVALID  # what the rules pass on


class Memset(Family):
    function, form = "aclrtMemset", staticmethod(rt.memset)
    sizes = ("max_count", "count")  # names of the arguments
    width = 1  # bytes of VALUE that are written
    probed = True  # pageable memory is filled too, and so it is probed

    SPOIL = {
        1: lambda s, a: {"count": 0},
        2: lambda s, a: {"ptr": 0},
        3: lambda s, a: {"stranger": True},
        6: lambda s, a: {"max_count": a["count"] - 1},
    }

    def good(self):
        """64 bytes or 64 words of device memory: there is room for both."""
        for ptr in (self.s.dev[0], self.s.pin[0], self.s.page[0]):
            fill(ptr, OLD)
        room, count = self.sizes
        return {"ptr": self.s.dev[0], room: 256, "value": VALUE, count: 64}

    def is_old(self, ptr):
        return holds(ptr, ROOM, OLD)

    def filled(self, ptr):
        size = 64 * self.width
        wanted = VALUE.to_bytes(4, "little")[: self.width] * 64
        return read(ptr, size) == wanted and holds(ptr + size, 64, OLD, size)

    def works(self):
        self.call()
        ok(rt.synchronize_stream(self.s.stream))
        self.assertTrue(self.filled(self.s.dev[0]))
        self.call(ptr=self.s.pin[0])
        self.assertTrue(self.filled(self.s.pin[0]))

    def bad_memory(self):
        """Memory that is gone, too short, on a device that cannot be reached, or not there."""
        s, (room, count) = self.s, self.sizes
        changes = [{"ptr": freed_device()}, {"ptr": freed_pinned()}, {room: 1 << 22, count: 1 << 20}, {"ptr": s.far}]
        if self.probed:
            changes.append({"ptr": s.hole, room: ROOM, count: ROOM})
        for change in changes:
            self.expect({**self.good(), **change})
            ok(rt.synchronize_stream(s.stream))
            self.assertTrue(self.is_old(s.dev[0]) and s.hole_is_whole())

    def while_aborting(self):
        arguments = self.good()
        with self.s.aborting():
            self.expect(arguments)
        self.assertTrue(self.is_old(self.s.dev[0]))

    def on_A2(self):
        self.works()
        self.prove(1, 2, 3)
        with self.rule(4):
            self.while_aborting()
        if self.function == "aclrtMemset":
            with self.rule(5):
                arguments = self.good()
                with self.s.capturing(GLOBAL):
                    self.expect(arguments)
                self.assertTrue(self.is_old(self.s.dev[0]))
        with self.rule(6):
            self.breaks(6)
            self.bad_memory()


    def on_strict(self):
        """Pageable memory is not filled."""
        if self.width == 1:
            with self.rule(max(self.SPOIL) + 1):
                self.expect({**self.good(), "ptr": self.s.page[0]})
                self.assertTrue(self.is_old(self.s.page[0]))


class MemsetAsync(Memset):
    function, form = "aclrtMemsetAsync", staticmethod(rt.memset_async)
    PASSED_ON = {7: PARAM_INVALID}

    SPOIL = {
        1: lambda s, a: {"count": 0},
        2: lambda s, a: {"ptr": 0},
        3: lambda s, a: {"stream": GARBAGE},
        4: lambda s, a: {"max_count": a["count"] - 1},
        5: lambda s, a: {"stranger": True},
        6: lambda s, a: {"stream": s.foreign},
        7: lambda s, a: {"ptr": freed_device()},
    }

    def good(self):
        return {**super().good(), "stream": self.s.stream}

    def on_A2(self):
        self.works()
        self.prove(1, 2, 3, 4, 5)
        with self.rule(6):
            self.breaks(6)
            # The stream counts although nothing is put on it.
            self.expect({**self.good(), "ptr": self.s.page[0], "stream": self.s.foreign})
            self.assertTrue(self.is_old(self.s.page[0]))
        with self.rule(7):
            self.breaks(7)
            self.bad_memory()


class MemsetD32(Memset):
    function, form = "aclrtMemsetD32", staticmethod(rt.memset_d32)
    PASSED_ON = {5: PARAM_INVALID}
    sizes, width, probed = ("mem_size", "n"), 4, False

    SPOIL = {
        1: lambda s, a: {"n": 0},
        2: lambda s, a: {"ptr": 0},
        3: lambda s, a: {"ptr": a["ptr"] + 2},
        4: lambda s, a: {"mem_size": 4 * a["n"] - 1},
        5: lambda s, a: {"ptr": freed_device()},
        6: lambda s, a: {"ptr": s.page[0]},
        7: lambda s, a: {"stranger": True},
    }

    def first(self):
        """The rules that both word fills begin with."""
        for number in range(1, 7):
            with self.rule(number):
                self.breaks(number)
                if number == 4:
                    for n in ((1 << 62) + 1, -1):  # the first, times 4, is 4 to a machine
                        self.expect({**self.good(), "n": n})
                elif number == 5:
                    self.bad_memory()
                self.assertTrue(self.is_old(self.s.dev[0]) and self.is_old(self.s.page[0]))

    def on_A2(self):
        self.works()
        self.first()
        self.prove(7)
        with self.rule(8):
            self.while_aborting()

    def on_310P(self):
        """There are none, which is said after the checks of the arguments."""
        arguments = self.good()
        self.assertEqual(acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, self.form(*arguments.values()))
        self.assertTrue(self.is_old(self.s.dev[0]))
        arguments["mem_size"] = 255
        self.assertEqual(acl.ACL_ERROR_INVALID_PARAM, self.form(*arguments.values()))


class MemsetD32Async(MemsetD32):
    function, form = "aclrtMemsetD32Async", staticmethod(rt.memset_d32_async)

    SPOIL = {
        **{number: MemsetD32.SPOIL[number] for number in range(1, 7)},
        7: lambda s, a: {"stream": GARBAGE},
        8: lambda s, a: {"stranger": True},
        9: lambda s, a: {"stream": s.foreign},
    }

    def good(self):
        return {**super().good(), "stream": self.s.stream}

    def on_A2(self):
        self.works()
        self.first()
        self.prove(7, 8)
        with self.rule(9):
            self.breaks(9)
            self.assertTrue(self.is_old(self.s.dev[0]))
            self.call(ptr=self.s.pin[0], stream=self.s.foreign)  # host memory is filled, whosever the stream is
            self.assertTrue(self.filled(self.s.pin[0]))
