// Package goapi connects the packages of the Go API. Package ropeway is what every program links; ascend, check,
// metrics, pod and driver/cuda are packages of their own, so that a program links what it imports and no more. They
// need what programs must not see of ropeway's types. Package ropeway sets these variables when it is initialised, and
// the others import it, so they find them set.
package goapi

import (
	"ropeway/internal/core"
	"ropeway/internal/setup"
)

var (
	// Option returns a ropeway.Option that changes the settings, instead of variables of the environment.
	Option func(change func(*setup.Settings) error, variables ...string) any

	// Stream returns a *ropeway.Stream's thread and handle.
	Stream func(stream any) (*core.Thread, core.Handle)

	// Device returns a *ropeway.Device's thread, and its number.
	Device func(device any) (*core.Thread, int)

	// Addr returns where n bytes of a *ropeway.Buffer are, from offset off on. It fails if t cannot use them, or if
	// there is no buffer.
	Addr func(t *core.Thread, api, arg string, buffer any, off, n int) (core.Addr, error)

	// Memory returns n bytes of device memory at addr, which are not the program's to free, as a *ropeway.Buffer.
	Memory func(device any, addr core.Addr, n int) any

	// Result turns an error of the core into one of package ropeway, nil into nil.
	Result func(t *core.Thread, err *core.Error) error
)
