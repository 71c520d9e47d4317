"""Sentences about memcpy_async."""

import contextlib

import acl
from _seeds_shared import (
    D2H, GARBAGE, H2D, H2H, INVALID_HANDLE, NEW, OLD, PARAM_INVALID, PRODUCTS, ROOM, TASK_FAILS, UNSUPPORTED,
    Sentences, expect, fill, holds, ok, same,
)  # fmt: skip
from acl import rt


class Async(Sentences):
    SIZE = 100

    def fresh(self):
        s = self.s
        for ptr, seed in ((s.dev[0], OLD), (s.dev[1], NEW), (s.pin[0], NEW), (s.pin[1], OLD), (s.page[0], NEW), (s.page[1], OLD)):
            fill(ptr, seed)

    def copy(self, dst, src, kind):
        return rt.memcpy_async(dst, self.SIZE, src, self.SIZE, kind, self.s.stream)

    def arrived(self, dst, source=0):
        return holds(dst, self.SIZE, NEW, source)

    def is_old(self, dst):
        return holds(dst, self.SIZE + 64, OLD)

    def async_prototype(self):
        self.fresh()
        ret = rt.memcpy_async(self.s.dev[0], self.SIZE, self.s.pin[0], self.SIZE, H2D, self.s.stream)
        expect(type(ret) is int)
        same((0, 0), (ret, self.synchronise()))
        expect(self.arrived(self.s.dev[0]))
        with contextlib.suppress(TypeError):
            rt.memcpy_async(self.s.dev[0], self.SIZE, self.s.pin[0], self.SIZE, H2D)
            expect(False, "a call without a stream is refused, which")

    def async_copies(self):
        self.fresh()
        dev, pin = self.s.dev[0], self.s.pin[0]
        ok(rt.memcpy_async(dev + 64, self.SIZE, pin + 128, self.SIZE, H2D, self.s.stream))
        ok(self.synchronise())
        expect(holds(dev, 64, OLD) and holds(dev + 64, self.SIZE, NEW, 128))
        expect(holds(dev + 64 + self.SIZE, 1024, OLD, 64 + self.SIZE))
        expect(holds(pin, ROOM, NEW))

    def async_dest_max(self):
        self.fresh()
        dev, pin = self.s.dev[0], self.s.pin[0]
        same(PARAM_INVALID, rt.memcpy_async(dev, self.SIZE - 1, pin, self.SIZE, H2D, self.s.stream))
        ok(self.synchronise())
        expect(self.is_old(dev))
        for room in (self.SIZE, ROOM):
            ok(rt.memcpy_async(dev, room, pin, self.SIZE, H2D, self.s.stream))
            ok(self.synchronise())
            expect(self.arrived(dev))

    def async_kinds(self):
        self.fresh()
        s = self.s
        fill(s.dev[2], OLD)
        same((0, 1), (acl.ACL_MEMCPY_HOST_TO_HOST, acl.ACL_MEMCPY_HOST_TO_DEVICE))
        same((2, 3), (acl.ACL_MEMCPY_DEVICE_TO_HOST, acl.ACL_MEMCPY_DEVICE_TO_DEVICE))
        ok(self.copy(s.dev[0], s.pin[0], 1))
        ok(self.copy(s.dev[2], s.dev[0], 3))
        ok(self.copy(s.pin[1], s.dev[2], 2))
        ok(self.synchronise())
        expect(all(self.arrived(ptr) for ptr in (s.dev[0], s.dev[2], s.pin[1])))

    def async_stream(self):
        self.fresh()
        dev, pin = self.s.dev[0], self.s.pin[0]
        with self.elsewhere() as stream:
            ok(rt.memcpy_async(dev, self.SIZE, pin, self.SIZE, H2D, stream))
            ok(self.synchronise())
            expect(self.is_old(dev))
        expect(self.arrived(dev))
        same(INVALID_HANDLE, rt.memcpy_async(dev, self.SIZE, pin, self.SIZE, H2D, self.s.gone))

    def async_returns(self):
        self.fresh()
        dev, pin = self.s.dev[0], self.s.pin[0]
        same(0, self.copy(dev, pin, H2D))
        for dst, src, kind in ((0, pin, H2D), (dev, 0, H2D), (dev, pin, 99)):
            expect(self.copy(dst, src, kind) != 0)
        expect(rt.memcpy_async(dev, self.SIZE, pin, self.SIZE, H2D, GARBAGE) != 0)
        ok(self.synchronise())

    def async_alignment(self):
        code = PARAM_INVALID if self.strict or self.oldest else 0
        dev, pin = self.s.dev[0], self.s.pin[0]
        for by in (1, 32, 63):
            self.fresh()
            same(code, self.copy(dev, pin + by, H2D))
            ok(self.synchronise())
            expect(self.is_old(dev) if code else self.arrived(dev, by))
            self.fresh()
            same(code, self.copy(dev + by, pin, H2D))
            ok(self.synchronise())
            expect(self.is_old(dev) if code else self.arrived(dev + by))
        self.fresh()
        ok(self.copy(dev + 64, pin + 64, H2D))
        ok(self.synchronise())
        expect(self.arrived(dev + 64, 64))

    def async_delivers(self):
        self.fresh()
        s = self.s
        with self.blocked(s.stream):
            ok(self.copy(s.dev[0], s.pin[0], H2D))
            ok(self.copy(s.pin[1], s.dev[1], D2H))
            expect(self.is_old(s.dev[0]) and self.is_old(s.pin[1]))
        expect(self.arrived(s.dev[0]) and self.arrived(s.pin[1]))

    def async_synchronised(self):
        s = self.s
        for _ in range(4):
            self.fresh()
            ok(rt.memcpy_async(s.dev[0], ROOM, s.pin[0], ROOM, H2D, s.stream))
            ok(rt.memcpy_async(s.pin[1], ROOM, s.dev[0], ROOM, D2H, s.stream))
            ok(self.synchronise())
            expect(holds(s.dev[0], ROOM, NEW) and holds(s.pin[1], ROOM, NEW))

    def ordinary(self, dst, src, kind):
        """On the oldest product such a copy may fail when it runs, elsewhere it is complete when the call returns."""
        if self.oldest and not self.rc:
            same((0, TASK_FAILS), (self.copy(dst, src, kind), self.synchronise()))
            expect(self.is_old(dst))
        else:
            ok(self.copy(dst, src, kind))
            expect(self.arrived(dst))

    def async_pageable(self):
        s = self.s
        self.fresh()
        self.ordinary(s.dev[0], s.page[0], H2D)
        self.ordinary(s.page[1], s.dev[1], D2H)
        if not self.oldest:
            self.fresh()
            ok(self.copy(s.pin[1], s.dev[1], D2H))
            ok(self.copy(s.dev[0], s.page[0], H2D))  # also after what is queued
            expect(self.arrived(s.pin[1]) and self.arrived(s.dev[0]))

    def async_host_memory(self):
        self.fresh()
        ok(self.copy(self.s.dev[0], self.s.pin[0], H2D))
        ok(self.synchronise())
        expect(self.arrived(self.s.dev[0]))
        self.fresh()
        self.ordinary(self.s.dev[0], self.s.page[0], H2D)

    def async_product(self):
        expect(acl.get_soc_name().startswith(PRODUCTS[self.product]))
        self.async_copies()

    def async_board(self):
        same(0 if self.rc else 1, ok(rt.get_run_mode()))
        if not self.rc:
            return
        s = self.s
        same(1, ok(rt.pointer_get_attributes(s.pin[0]))["location"]["type"])  # all memory is the device's
        for kind in (H2H, H2D, D2H):
            self.fresh()
            ok(self.copy(s.dev[0], s.pin[0], kind))
            ok(self.copy(s.pin[1], s.dev[1], kind))
            ok(self.synchronise())
            expect(self.arrived(s.dev[0]) and self.arrived(s.pin[1]))

    def async_host_to_host(self):
        s = self.s
        hosts = ((s.pin[1], s.pin[0]), (s.page[1], s.page[0]))
        for dst, src in (*hosts, (s.dev[0], s.pin[0]), (s.dev[0], s.dev[1]), (s.pin[1], s.dev[1])):
            self.fresh()
            got = (self.copy(dst, src, H2H), self.synchronise())
            if self.rc or not (self.strict or self.oldest or self.product in ("A2", "A3") or (dst, src) in hosts):
                same((0, 0), got)
                expect(self.arrived(dst))
                continue
            same((0, TASK_FAILS) if self.oldest else (UNSUPPORTED, 0), got)
            expect(self.is_old(dst))
