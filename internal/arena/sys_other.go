//go:build !linux

package arena

import "errors"

type pointer = uintptr

var errNoPopulate = errors.New("not supported")

func (a *Arena) mapBoth(int, uintptr) error   { return ErrUnsupported }
func (a *Arena) unmapBoth() error             { return ErrUnsupported }
func (a *Arena) engineAt(off uint64) uintptr  { return a.engine + uintptr(off) }
func (a *Arena) resident() uint64             { return 0 }
func (a *Arena) Bytes(uintptr, uint64) []byte { return nil }
func Reserve(uint64) (uintptr, error)         { return 0, ErrUnsupported }
func Memfd(string, uint64) (int, error)       { return -1, ErrUnsupported }
func ReserveAt(uintptr, uint64) error         { return ErrUnsupported }
func ProtectPages(uintptr, uint64, int) error { return ErrUnsupported }
func Unreserve(uintptr, uint64) error         { return ErrUnsupported }
func isolate(uintptr, uint64)                 {}
func rejoin(uintptr, uint64)                  {}
func populateWrite(uintptr, uint64) error     { return ErrUnsupported }
func collapse(uintptr, uint64) error          { return ErrUnsupported }
func allocate(int, uint64, uint64) error      { return ErrUnsupported }
func punchHole(int, uint64, uint64) error     { return ErrUnsupported }
func mincore(uintptr, []byte) error           { return ErrUnsupported }

const protReadWrite = 3

func sealedMemfd(string, uint64) (int, error)            { return -1, ErrUnsupported }
func looksShared(int) (size, resident uint64, err error) { return 0, 0, ErrUnsupported }
func residentBytes(int) uint64                           { return 0 }
func duplicate(int) (int, error)                         { return -1, ErrUnsupported }
func closeFile(int) error                                { return ErrUnsupported }
func dataIn(int, uint64, uint64) []part                  { return nil }
func writeFile(int, []byte, uint64) error                { return ErrUnsupported }
func makeHuge(uintptr, uint64) bool                      { return false }
func Back(uintptr, uint64, bool) error                   { return ErrUnsupported }
func MapFile(uintptr, uint64, int, int, uint64) error    { return ErrUnsupported }
func Vacate(uintptr, uint64) error                       { return ErrUnsupported }
