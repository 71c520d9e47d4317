package ropeway

import (
	"ropeway/internal/core"
	"ropeway/internal/goapi"
	"ropeway/internal/setup"
)

func init() {
	goapi.Option = func(change func(*setup.Settings) error, variables ...string) any {
		return instead(change, variables...)
	}
	goapi.Stream = func(stream any) (*core.Thread, core.Handle) {
		s := stream.(*Stream)
		return s.d.t, s.h
	}
	goapi.Device = func(device any) (*core.Thread, int) {
		d := device.(*Device)
		return d.t, d.id
	}
	goapi.Addr = func(t *core.Thread, api, arg string, buffer any, off, n int) (core.Addr, error) {
		b := buffer.(*Buffer)
		switch {
		case b == nil:
			return 0, misuse(api, arg, "is not memory of a Buffer")
		case b.d.r.rt != t.Runtime:
			return 0, misuse(api, arg, otherRuntime)
		}
		s := b.Range(off, n)
		return s.addr, filled(b.d.r, api, arg, s)
	}
	goapi.Memory = func(device any, addr core.Addr, n int) any {
		return &Buffer{d: device.(*Device), addr: addr, n: n, device: true, goes: true,
			free: func(*core.Thread, core.Addr) *core.Error { return nil }}
	}
	goapi.Result = func(t *core.Thread, err *core.Error) error {
		if err == nil {
			return nil
		}
		t.ReportRefused(err)
		return public(err)
	}
}

// public converts an error of the core to the type of this package.
func public(e *core.Error) *Error {
	return &Error{Code: Code(e.Code), API: e.API, Arg: e.Arg, Index: e.Index, Text: e.Text, Err: e.Err}
}
