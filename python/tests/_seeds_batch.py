"""Sentences about memcpy_batch_async."""

import threading

from _seeds_shared import (
    GARBAGE, INVALID_HANDLE, INVALID_PARAM, NEW, NOBODY, OLD, PARAM_INVALID, ROOM, UNSUPPORTED, Sentences, expect,
    fill, holds, ok, same,
)  # fmt: skip
from acl import rt


class Batch(Sentences):
    SIZE, PITCH, MOST = 64, 128, 12
    HOST, DEVICE, NUMA = {"id": 0, "type": 0}, {"id": 0, "type": 1}, {"id": 0, "type": 4}
    UP, DOWN = {"dstLoc": DEVICE, "srcLoc": HOST}, {"dstLoc": HOST, "srcLoc": DEVICE}
    FAR = {"dstLoc": {"id": 1, "type": 1}, "srcLoc": HOST}  # memory of another device

    def good(self, n, attrs=1):
        """n segments from pinned memory to the device."""
        s = self.s
        for ptr, seed in ((s.dev[0], OLD), (s.dev[1], NEW), (s.pin[0], NEW), (s.pin[1], OLD), (s.page[0], NEW)):
            fill(ptr, seed)
        at = range(0, n * self.PITCH, self.PITCH)
        self.dsts, self.srcs = [s.dev[0] + i for i in at], [s.pin[0] + i for i in at]
        self.maxs, self.sizes = [self.SIZE] * n, [self.SIZE] * n
        self.attrs, self.indexes = [self.UP] * attrs, list(range(attrs))

    def turn(self, i):
        """Segment i goes from the device to the host instead."""
        at = i * self.PITCH
        self.dsts[i], self.srcs[i], self.attrs[i] = self.s.pin[1] + at, self.s.dev[1] + at, self.DOWN

    def call(self, stream=None):
        lists = (self.dsts, self.maxs, self.srcs, self.sizes, self.attrs, self.indexes)
        return rt.memcpy_batch_async(*lists, stream or self.s.stream)

    def is_old(self):
        return holds(self.s.dev[0], ROOM, OLD) and holds(self.s.pin[1], ROOM, OLD)

    def there(self):
        """Every segment is, and no other byte."""
        dev, end = self.s.dev[0], len(self.sizes) * self.PITCH
        for i, size in enumerate(self.sizes):
            at = i * self.PITCH
            if not (holds(dev + at, size, NEW, at) and holds(dev + at + size, self.PITCH - size, OLD, at + size)):
                return False
        return holds(dev + end, ROOM - end, OLD, end)

    def has(self):
        """Whether the product has batches; if not it says so, and that no copy is to blame."""
        if self.product in ("A2", "A3", "950"):
            return True
        self.good(2)
        same((NOBODY, UNSUPPORTED), self.call())
        ok(self.synchronise())
        expect(self.is_old())
        return False

    def succeeds(self):
        same((NOBODY, 0), self.call())
        ok(self.synchronise())
        expect(self.there())

    def refused(self, at=NOBODY, code=PARAM_INVALID):
        same((at, code), self.call())
        ok(self.synchronise())
        expect(0 < at < NOBODY or self.is_old())  # segments before it may be on their way

    def batch_products(self):
        same(self.product in ("A2", "A3", "950"), self.has())

    def batch_copies(self):
        if self.has():
            self.good(5)
            self.sizes = [1 + 13 * i for i in range(5)]
            self.succeeds()
            expect(holds(self.s.pin[0], ROOM, NEW))

    def batch_host_memory(self):
        if self.has():
            self.good(6)
            for i in (0, 2, 4):
                self.srcs[i] = self.s.page[0] + i * self.PITCH
            self.succeeds()

    def batch_pageable(self):
        if self.has():
            self.good(4)
            self.srcs = [self.s.page[0] + i * self.PITCH for i in range(4)]
            same((NOBODY, 0), self.call())
            expect(self.there())  # before anything was synchronised

    def batch_delivers(self):
        if self.has():
            self.good(4)
            with self.blocked(self.s.stream):
                same((NOBODY, 0), self.call())
                expect(self.is_old())
            expect(self.there())

    def batch_synchronised(self):
        if self.has():
            self.good(self.MOST)
            self.succeeds()

    def batch_prototype(self):
        if self.has():
            self.good(2)
            lists = (self.dsts, self.maxs, self.srcs, self.sizes, self.attrs, self.indexes)
            fail_index, ret = rt.memcpy_batch_async(*lists, self.s.stream)
            expect(type(fail_index) is int and type(ret) is int)
            ok(self.synchronise())
            expect(self.there())

    def batch_dest_maxs(self):
        if self.has():
            self.good(3)
            self.maxs[1] -= 1
            self.refused(code=INVALID_PARAM)
            self.good(3)
            self.maxs[1] += 1
            self.succeeds()

    def batch_num_batches(self):
        if self.has():
            self.good(2)
            self.succeeds()
            self.good(0)
            self.refused(code=INVALID_PARAM)

    def batch_attrs(self):
        if self.has():
            unregistered = {"id": 0, "type": 2}
            for wrong in ({"dstLoc": self.DEVICE, "srcLoc": self.DEVICE}, {"dstLoc": unregistered, "srcLoc": self.HOST}):
                self.good(2)
                self.attrs = [wrong]
                self.refused(0)
            self.good(2)
            self.succeeds()

    def batch_attr_ranges(self):
        if self.has():
            for first in (1, 2, 3):
                self.good(5, attrs=3)
                self.attrs[1], self.indexes = self.FAR, [0, first, 4]
                self.refused(first)
            self.good(5, attrs=3)
            self.attrs[1], self.indexes = {"dstLoc": self.DEVICE, "srcLoc": self.NUMA}, [0, 2, 3]
            self.succeeds()

    def batch_last_attr(self):
        if self.has():
            for first in (1, 2, 3, 4):
                self.good(5, attrs=2)
                self.attrs[1], self.indexes[1] = self.FAR, first
                self.refused(first)
            self.good(5, attrs=2)
            self.dsts[4] = self.s.pin[1]  # the last copy has the last attribute too
            self.refused(4)

    def batch_num_attrs(self):
        if self.has():
            self.good(3, attrs=2)
            self.attrs[1] = self.FAR
            self.refused(1)
            self.good(3)
            self.succeeds()

    def batch_fail_index(self):
        if self.has():
            for i in range(4):
                self.good(4, attrs=4)
                self.attrs[i] = self.FAR
                self.refused(i)
                self.good(4, attrs=4)
                self.srcs[i] = self.s.dev[1]
                self.refused(i)
                if i > 0:
                    self.good(4, attrs=4)
                    self.turn(i)
                    self.refused(i)

    def batch_fail_index_only(self):
        if self.has():
            self.good(3)  # neither a memory attribute nor a direction
            self.sizes[1] = self.maxs[1] = 1 << 20
            same((NOBODY, PARAM_INVALID), self.call())
            ok(self.synchronise())

    def batch_fail_index_none(self):
        if not self.has():
            return
        self.good(2)
        self.succeeds()
        self.good(2)
        arguments = [self.dsts, self.maxs, self.srcs, self.sizes, self.attrs, self.indexes]
        for i in range(len(arguments)):
            missing = [*arguments]
            missing[i] = None
            same((NOBODY, INVALID_PARAM), rt.memcpy_batch_async(*missing, self.s.stream))
        for stream in (GARBAGE, self.s.gone):
            same((NOBODY, INVALID_HANDLE), self.call(stream))
        same((NOBODY, 107003), self.call(self.s.foreign))
        got = []
        thread = threading.Thread(target=lambda: got.append(self.call()))  # which has no context
        thread.start()
        thread.join()
        same([(NOBODY, 107002)], got)
        self.attrs = [{**self.UP, "rsv": [0, 0, 1] + [0] * 13}]
        same((NOBODY, INVALID_PARAM), self.call())
        expect(self.is_old())

    def batch_stream(self):
        if self.has():
            self.good(3)
            with self.elsewhere() as stream:
                same((NOBODY, 0), self.call(stream))
                ok(self.synchronise())
                expect(self.is_old())
            expect(self.there())

    def batch_returns(self):
        if self.has():
            self.good(2)
            same(0, self.call()[-1])
            ok(self.synchronise())
            for change in (self.srcs, self.dsts):
                change[0], before = 0, change[0]
                expect(self.call()[-1] != 0)
                change[0] = before

    def batch_unordered(self):
        if self.has():
            self.good(self.MOST)  # whatever their order, they end up the same
            for i in range(self.MOST):
                at = 5 * i % self.MOST * self.PITCH
                self.dsts[i], self.srcs[i] = self.s.dev[0] + at, self.s.pin[0] + at
            self.succeeds()

    def batch_example(self):
        if self.has():
            self.good(10)
            self.attrs, self.indexes = [self.UP, {"dstLoc": self.DEVICE, "srcLoc": self.NUMA}], [0, 6]
            self.succeeds()

    def with_indexes(self, n, *indexes):
        self.good(n, attrs=len(indexes))
        self.indexes = list(indexes)

    def batch_first_index(self):
        if self.has():
            self.with_indexes(3, 1)
            self.refused()

    def batch_rising_indexes(self):
        if self.has():
            for indexes in ((0, 0), (0, 2, 1), (0, 1, 1)):
                self.with_indexes(4, *indexes)
                self.refused()

    def batch_last_index(self):
        if self.has():
            self.with_indexes(4, 0, 4)
            self.refused()
            self.with_indexes(4, 0, 3)
            self.succeeds()

    def batch_attrs_at_most(self):
        if self.has():
            self.good(4, attrs=5)
            self.refused()
            self.good(4, attrs=4)
            self.succeeds()

    def batch_direction(self):
        if not self.has():
            return
        self.good(3, attrs=3)
        self.succeeds()
        self.good(3, attrs=3)
        for i in range(3):
            self.turn(i)
        same((NOBODY, 0), self.call())
        ok(self.synchronise())
        for at in (0, 2 * self.PITCH):
            expect(holds(self.s.pin[1] + at, self.SIZE, NEW, at))
        for turned, wrong in (((1,), 1), ((2,), 2), ((0,), 1), ((0, 1), 2)):  # one that goes the other way
            self.good(3, attrs=3)
            for i in turned:
                self.turn(i)
            self.refused(wrong)
        # None at all: within a device, within the host.
        for dst, src, attr in ((self.s.dev[0], self.s.dev[1], self.DEVICE), (self.s.pin[1], self.s.pin[0], self.HOST)):
            self.good(1)
            self.dsts, self.srcs, self.attrs = [dst], [src], [{"dstLoc": attr, "srcLoc": attr}]
            self.refused(0)
