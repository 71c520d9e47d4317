"""Sentences about memcpy_async_with_desc."""

import acl
from _seeds_shared import (
    INNER, INVALID_HANDLE, NEW, OLD, PARAM_INVALID, ROOM, UNSUPPORTED, Sentences, expect, fill, holds, ok, same,
)  # fmt: skip
from acl import rt


class Desc(Sentences):
    SIZE = 100

    def set(self, kind=INNER, src=None, dst=None, size=SIZE, desc=None):
        return rt.set_memcpy_desc(desc or self.s.dev[2], kind, src or self.s.dev[0], dst or self.s.dev[1], size, 0)[-1]

    def copy(self, kind=INNER, stream=None, desc=None):
        return rt.memcpy_async_with_desc(desc or self.s.dev[2], kind, self.s.stream if stream is None else stream)

    def arrived(self):
        return holds(self.s.dev[1], self.SIZE, NEW) and holds(self.s.dev[1] + self.SIZE, 64, OLD, self.SIZE)

    def is_old(self):
        return holds(self.s.dev[1], self.SIZE + 64, OLD)

    def prepared(self):
        """The first steps of the document, as far as the product has them: false if it does not, and says so."""
        fill(self.s.dev[0], NEW)
        fill(self.s.dev[1], OLD)
        size, ret = rt.get_memcpy_desc_size(INNER)
        if self.product not in ("A2", "A3", "950", "310B"):
            same([UNSUPPORTED] * 3, [ret, self.set(), self.copy()])
            return False
        same((64 if self.product == "950" else 32, 0), (size, ret))
        same(0, self.set())
        return True

    def desc_products(self):
        same(self.product in ("A2", "A3", "950", "310B"), self.prepared())

    desc_size = desc_products

    def desc_copies(self):
        if self.prepared():
            same((0, 0), (self.copy(), self.synchronise()))
            expect(self.arrived() and holds(self.s.dev[0], ROOM, NEW))

    def desc_prototype(self):
        if self.prepared():
            ret = rt.memcpy_async_with_desc(self.s.dev[2], INNER, self.s.stream)
            expect(type(ret) is int)
            same((0, 0), (ret, self.synchronise()))
            expect(self.arrived())

    def desc_delivers(self):
        if self.prepared():
            with self.blocked(self.s.stream):
                same(0, self.copy())
                expect(self.is_old())
            expect(self.arrived())

    def desc_memory(self):
        if self.prepared() and not self.rc:  # where all memory is the device's
            for host in (self.s.pin[2], self.s.page[2]):
                same((PARAM_INVALID, PARAM_INVALID), (self.set(desc=host), self.copy(desc=host)))
            ok(self.synchronise())
            expect(self.is_old())

    def desc_set(self):
        if self.prepared():
            s = self.s
            fill(s.dev[3], OLD)
            size = self.SIZE + 1
            same((0, 0), (self.set(src=s.dev[0] + 64, dst=s.dev[3], size=size), self.copy()))
            ok(self.synchronise())
            expect(self.is_old() and holds(s.dev[3], size, NEW, 64) and holds(s.dev[3] + size, 64, OLD, size))
            same(PARAM_INVALID, self.set(size=4 << 30))  # nothing returns success without its work

    def desc_kind(self):
        if self.prepared():
            same(6, acl.ACL_MEMCPY_INNER_DEVICE_TO_DEVICE)
            for kind in (0, 1, 2, 3, 4, 5, 7):
                same((UNSUPPORTED, UNSUPPORTED), (self.set(kind=kind), self.copy(kind=kind)))
            ok(self.synchronise())
            expect(self.is_old())
            if not self.rc:
                same((PARAM_INVALID, PARAM_INVALID), (self.set(src=self.s.pin[0]), self.set(dst=self.s.pin[0])))

    def desc_stream(self):
        if self.prepared():
            with self.elsewhere() as stream:
                same(0, self.copy(stream=stream))
                ok(self.synchronise())
                expect(self.is_old())
            expect(self.arrived())
            same(INVALID_HANDLE, self.copy(stream=self.s.gone))

    def desc_returns(self):
        if self.prepared():
            same(0, self.copy())
            expect(self.copy(stream=0) != 0 and self.copy(desc=self.s.dev[2] + 8) != 0)
            expect(rt.memcpy_async_with_desc(0, INNER, self.s.stream) != 0)
            ok(self.synchronise())
