"""Rules of the batch copies: memcpy_batch, memcpy_batch_async, and their forms without fail_index."""

import acl
from acl import rt
from test_rules import GARBAGE, GLOBAL, NEW, OLD, PAGE, Family, fill, freed_device, freed_pinned, holds, ok

HOST, DEVICE = 0, 1
NOBODY = 2**64 - 1  # fail_index, where no segment is to blame
SEGMENTS, SIZE = 3, 64
MOST = 4096  # segments of a synchronous batch
# What the rules pass on.
PARAM_INVALID, SYS_DMA, TASK_ABORT = acl.ACL_ERROR_RT_PARAM_INVALID, acl.ACL_ERROR_RT_SYS_DMA, acl.ACL_ERROR_RT_DEVICE_TASK_ABORT


def location(kind):
    return {"id": 0, "type": kind}


WITHIN_DEVICE = {"dstLoc": location(DEVICE), "srcLoc": location(DEVICE)}


def many(s, a):
    """More segments than a batch may have."""
    names = ("dsts", "dest_maxs", "srcs", "sizes")
    return {name: (a[name] * MOST)[: MOST + 1] for name in names}


def many_attrs(s, a):
    """More attributes than segments."""
    count = len(a["dsts"]) + 1
    return {"attrs": (a["attrs"] * count)[:count], "attrs_indexes": [*a["attrs_indexes"], *range(SEGMENTS, count)]}


FIRST = {
    2: lambda s, a: {"sizes": None},
    4: lambda s, a: {"sizes": [0] * len(a["sizes"])},
    5: lambda s, a: {"dsts": None},
    6: lambda s, a: {"dest_maxs": None},
    7: lambda s, a: {"srcs": None},
    9: lambda s, a: {"attrs": None},
    10: lambda s, a: {"attrs_indexes": None},
    11: lambda s, a: {("dest_maxs", 2): a["sizes"][2] - 1},
    12: lambda s, a: {("attrs", 1, "rsv"): [0] * 15 + [1]},
}
INDEXES = {
    17: lambda s, a: {("attrs_indexes", 0): 1},
    18: lambda s, a: {("attrs_indexes", 1): a["attrs_indexes"][0]},
    19: lambda s, a: {("attrs_indexes", 2): len(a["dsts"])},
}


def wrong_dst(s, a):
    return {("attrs", 1, "dstLoc", "id"): 1}


def wrong_src(s, a):
    return {("attrs", 1, "srcLoc", "type"): DEVICE}


def same_side(s, a):
    return {("dsts", 1): s.pin[3], ("attrs", 1, "dstLoc", "type"): HOST}


class MemcpyBatch(Family):
    function, form = "aclrtMemcpyBatch", staticmethod(rt.memcpy_batch)
    first = function  # whose numbers the rules have in here
    shift = 0  # how much lower the numbers of this function are: the forms without fail_index lack rule 1
    PASSED_ON = {20: PARAM_INVALID, 22: PARAM_INVALID, 26: PARAM_INVALID}
    SHARED = (15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 26)  # from the product on; both functions have them
    SEGMENT = range(20, 25)  # rules about one segment
    NO_ATTRS = 14

    SPOIL = {
        **FIRST,
        15: many_attrs,
        16: many,
        **INDEXES,
        20: lambda s, a: {("dsts", 1): freed_device()},
        21: wrong_dst,
        22: lambda s, a: {("srcs", 1): freed_pinned()},
        23: wrong_src,
        24: same_side,
    }

    def good(self):
        """Three segments of 64 bytes, pinned to device, with an attribute each."""
        s = self.s
        for i in range(SEGMENTS):
            fill(s.dev[i], OLD)
            fill(s.pin[i], NEW)
            fill(s.page[i], NEW)
        return {
            "dsts": s.dev[:SEGMENTS],
            "dest_maxs": [SIZE] * SEGMENTS,
            "srcs": s.pin[:SEGMENTS],
            "sizes": [SIZE] * SEGMENTS,
            "attrs": [{"dstLoc": location(DEVICE), "srcLoc": location(HOST)} for _ in range(SEGMENTS)],
            "attrs_indexes": list(range(SEGMENTS)),
        }

    def one_attribute(self):
        return {**self.good(), "attrs": self.good()["attrs"][:1], "attrs_indexes": [0]}

    def arrived(self, *segments):
        dev = self.s.dev
        return all(holds(dev[i], SIZE, NEW) and holds(dev[i] + SIZE, SIZE, OLD, SIZE) for i in segments)

    def is_old(self, *segments):
        return all(holds(self.s.dev[i], 2 * SIZE, OLD) for i in segments)

    def copied(self, index):
        """Which segments have been copied when a segment is refused: none."""
        return range(0)

    def expect_index(self, result, index):
        """The segment that is to blame is named, where there is a place for it."""
        if self.shift == 0:
            self.assertEqual(index, result[0])

    def refused(self, arguments, index=NOBODY):
        self.expect_index(self.expect(arguments), index)
        ok(rt.synchronize_stream(self.s.stream))
        done = self.copied(index)
        self.assertTrue(self.arrived(*done) and self.is_old(*set(range(SEGMENTS)) - set(done)))

    def broken(self, number):
        """The rule alone, then with all later ones."""
        index = 1 if number in self.SEGMENT else NOBODY
        if number in self.SPOIL:
            self.refused(self.spoiled(self.good(), number), index)
        arguments = self.good()
        for later in sorted(self.SPOIL, reverse=True):
            if later >= number and (later == number or self.may_join(number, later)):
                self.spoiled(arguments, later)
        self.refused(arguments, index)

    def may_join(self, number, later):
        """Thousands of segments take time: they join the rules next to theirs only."""
        return later != 16 or number >= 14

    def changed(self, *path_and_value):
        """Good arguments but for some entries: path, value, path, value ..."""
        arguments = self.good()
        for (name, i), value in zip(path_and_value[::2], path_and_value[1::2]):
            arguments[name][i] = value
        return arguments

    def shared(self, number):
        s = self.s
        if number == 17:  # also when it is the only one
            self.refused({**self.one_attribute(), "attrs_indexes": [1]})
        if number == 26:  # found when the driver copies, before anything is written
            self.refused(self.changed(("sizes", 2), 1 << 20, ("dest_maxs", 2), 1 << 20))
            self.refused({**self.good(), "srcs": [*s.page[:2], s.hole + PAGE]})
            return
        self.broken(number)
        if number in (20, 22):  # no address at all
            self.refused(self.changed(("dsts" if number == 20 else "srcs", 1), 0), 1)
        if number == 24:
            self.refused(self.changed(("srcs", 1), s.dev[3], ("attrs", 1), WITHIN_DEVICE), 1)
            self.refused(self.other_way(1), 1)

    def other_way(self, i):
        """Segment i goes from the device to the host."""
        down = {"dstLoc": location(HOST), "srcLoc": location(DEVICE)}
        return self.changed(("dsts", i), self.s.pin[3], ("srcs", i), self.s.dev[3], ("attrs", i), down)

    def works(self):
        for arguments in (self.good(), self.one_attribute()):
            result = self.form(*arguments.values())
            self.assertEqual(0 if self.shift else (NOBODY, 0), result)
            ok(rt.synchronize_stream(self.s.stream))
            self.assertTrue(self.arrived(0, 1, 2))

    def empty_lists(self):
        """No segments, and no attributes."""
        with self.rule(3 - self.shift):
            self.refused({**self.good(), "dsts": [], "dest_maxs": [], "srcs": [], "sizes": []})
        if self.shift == 0:
            with self.rule(self.NO_ATTRS):
                self.refused({**self.good(), "attrs": [], "attrs_indexes": []})

    def on_A2(self):
        self.works()
        self.seen = 0
        self.empty_lists()
        for number in (2, 4, 5, 6, 7, 9, 10, 11, 12):
            with self.rule(number - self.shift):
                self.broken(number)
        if self.shift == 0:
            for number in self.SHARED:
                with self.rule(number):
                    self.shared(number)
        else:
            with self.rule(12):  # all further ones are those of the first function
                for number in self.SHARED:
                    self.like_first(number)
                    self.shared(number)
        self.works()

    def like_first(self, number):
        self.like(self.first, number)
        if self.code is None:
            self.code = self.PASSED_ON[number]

    def on_310P(self):
        """There are none: no argument has to break the rule."""
        with self.rule(13 if self.shift == 0 else 12):
            self.like(self.first, 13)
            self.broken(13)
            self.refused(self.good())


class MemcpyBatchV2(MemcpyBatch):
    function, form, shift = "aclrtMemcpyBatchV2", staticmethod(rt.memcpy_batch_v2), 1


class MemcpyBatchAsync(MemcpyBatch):
    function, form = "aclrtMemcpyBatchAsync", staticmethod(rt.memcpy_batch_async)
    first = function
    PASSED_ON = {29: SYS_DMA, 33: PARAM_INVALID}
    SHARED = (14, 16, 17, 18, 19, 21, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33)
    SEGMENT = range(23, 29)
    NO_ATTRS = 15

    SPOIL = {
        **FIRST,
        14: lambda s, a: {"stream": GARBAGE},
        16: many_attrs,
        **INDEXES,
        21: lambda s, a: {"stranger": True},
        23: lambda s, a: {("sizes", 1): 0},
        24: lambda s, a: {("srcs", 1): 0},
        25: lambda s, a: {("dsts", 1): 0},
        26: wrong_dst,
        27: wrong_src,
        28: same_side,
        32: lambda s, a: {"stream": s.foreign},
    }

    def good(self):
        return {**super().good(), "stream": self.s.stream}

    def pageable(self):
        return {**self.good(), "srcs": self.s.page[:SEGMENTS]}

    def copied(self, index):
        """The segments below the one that is refused were queued."""
        return range(index if index < SEGMENTS else 0)

    def may_join(self, number, later):
        """The stream of another context would decide before the second segment."""
        return not (later == 32 and number in self.SEGMENT)

    def shared(self, number):
        s = self.s
        if number >= 29:
            return self.streams(number)
        if number == 14:
            self.refused({**self.good(), "stream": s.gone})
        if number == 17:
            self.refused({**self.one_attribute(), "attrs_indexes": [1]})
        self.broken(number)
        last = {
            24: (("srcs", 2), 0),
            25: (("dsts", 2), 0),
            26: (("dsts", 2), freed_device()),
            27: (("srcs", 2), freed_pinned()),
            28: (("srcs", 2), s.dev[3], ("attrs", 2), WITHIN_DEVICE),
        }
        if number in last:
            self.refused(self.changed(*last[number]), 2)
        if number == 28:
            self.refused(self.other_way(2), 2)

    def streams(self, number):
        """Rules about streams and what is on them."""
        s = self.s
        if number == 29:  # pageable segments wait for the stream, and report what failed on it
            arguments = self.pageable()
            s.fail_on(s.stream)
            self.refused(arguments)
            ok(self.form(*arguments.values()))
            self.assertTrue(self.arrived(0, 1, 2))
        elif number == 30:
            arguments = self.pageable()
            with s.aborting():
                self.expect_index(self.expect(arguments), NOBODY)
        elif number == 31:
            arguments = self.pageable()
            with s.capturing(GLOBAL):
                self.expect_index(self.expect(arguments), NOBODY)
        elif number == 32:  # pageable segments are copied, and the first pinned one ends it
            result = self.expect({**self.pageable(), "srcs": [*s.page[:2], s.pin[2]], "stream": s.foreign})
            self.expect_index(result, NOBODY)
            self.assertTrue(self.arrived(0, 1) and self.is_old(2))
            self.refused(self.spoiled({**self.good(), "stream": s.foreign}, 26))  # a later segment does not matter
        elif number == 33:
            self.expect_index(self.expect(self.changed(("sizes", 1), 1 << 20, ("dest_maxs", 1), 1 << 20)), NOBODY)  # past the end
            ok(rt.synchronize_stream(s.stream))
            self.assertTrue(self.is_old(1, 2))
            arguments = self.good()
            self.code = TASK_ABORT  # the queue takes nothing now
            with s.aborting():
                self.expect_index(self.expect(arguments), NOBODY)

    def on_950(self):
        """The 950 compares the context of the stream before the first segment, and looks at all segments before it copies one."""
        self.works()
        if self.shift:
            return
        with self.rule(32):
            self.refused({**self.pageable(), "sizes": [0, SIZE, SIZE], "stream": self.s.foreign})
        with self.rule(23):
            self.expect_index(self.expect(self.changed(("sizes", 2), 0)), 2)
            ok(rt.synchronize_stream(self.s.stream))
            self.assertTrue(self.is_old(0, 1))


class MemcpyBatchAsyncV2(MemcpyBatchAsync):
    function, form, shift = "aclrtMemcpyBatchAsyncV2", staticmethod(rt.memcpy_batch_async_v2), 1
