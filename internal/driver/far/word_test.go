package far

import (
	"encoding/binary"
	"errors"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"ropeway/internal/driver"
)

// TestWords proves that stores and waits for words of another server run in the order of their queue, that a wait does
// not keep memory mapped, and that it ends when it is dropped or its memory is unmapped.
func TestWords(t *testing.T) {
	b := setUp(t)
	gate := func(g driver.Gate) { b.q.Submit(driver.Op{Kind: driver.OpWaitCond, Gate: g}) }
	word := func(at int) uint64 { return binary.LittleEndian.Uint64(b.their()[at:]) }
	if b.b.IsFar(b.local) || !b.b.IsFar(b.at+8) {
		t.Error("words are not where they are")
	}
	gate(b.b.StoreWord(b.at+8, 1<<40|7))
	gate(b.b.AwaitWord(b.at+8, func(w uint64) bool { return w == 1<<40|7 }))
	b.q.Copy(b.at+16, b.at+8, 8, driver.Tag{})
	if err := b.wait(); err != nil || word(16) != 1<<40|7 {
		t.Errorf("a store, a wait and a copy: %v, %#x", err, word(16))
	}
	for why, list := range map[string][]driver.Gate{
		"not a multiple of 8":            {b.b.StoreWord(b.at+3, 1), b.b.AwaitWord(b.at+4, nil)},
		"no memory of another server is": {b.b.StoreWord(b.local, 1)},
	} {
		for _, g := range list {
			gate(g)
			if err := b.wait(); !errors.Is(err, driver.ErrFault) || !strings.Contains(err.Error(), why) {
				t.Errorf("an address that is no word: %v, want %q", err, why)
			}
		}
	}
	never := func(uint64) bool { return false }
	gate(b.b.AwaitWord(b.at, never))
	b.ok(b.b.still(func() error { return nil }))
	b.q.Drop()
	if err := b.wait(); err != nil {
		t.Errorf("dropped: %v", err)
	}
	gate(b.b.AwaitWord(b.at, never))
	b.ok(b.b.Unmap(b.at))
	if err := b.wait(); !errors.Is(err, driver.ErrFault) {
		t.Errorf("a wait for memory that goes: %v", err)
	}
}

// TestKeys proves that memory offered under a secret can be opened by processes that were allowed with their server,
// that its owner is told of writes, and that a range of odd size and start is exact.
func TestKeys(t *testing.T) {
	b := setUp(t)
	s := must[*driver.Shared](t)(b.a.Share(b.mem))
	defer s.File.Close()
	s.Offset, s.Size = s.Offset+5000, 12
	var wrote atomic.Int32
	secret := [24]byte{1, 2, 3}
	k := must[driver.FarKey](t)(b.a.OfferFar(s, secret, func() { wrote.Add(1) }))
	place := must[uint32](t)(b.a.PlaceFar())
	if b.b.ServerFar(place) != 0 || !b.b.HasServer(1) || b.b.HasServer(2) {
		t.Error("the servers are others")
	}
	open := func() (driver.Memory, error) { return b.b.OpenFar(place, secret, 1) }
	pid := []int32{int32(os.Getpid())}
	k.AllowAt(0, pid) // this process, but on the owner's server
	if _, err := open(); !errors.Is(err, driver.ErrNotAllowed) {
		t.Errorf("a process of another server than the one that is named: %v", err)
	}
	k.AllowAt(1, pid)
	m := must[driver.Memory](t)(open())
	if m.Size() != 12 {
		t.Errorf("it has %d bytes", m.Size())
	}
	b.ok(b.b.Map(b.at+size, m))
	copy(b.pinned(), "twelve bytes and more")
	b.q.Copy(b.at+size, b.pin, 12, driver.Tag{})
	if err := b.wait(); err != nil || string(b.their()[5000:5014]) != "twelve bytes\x00\x00" || wrote.Load() != 1 {
		t.Errorf("written: %v, %q; the owner heard of %d writes", err, b.their()[5000:5014], wrote.Load())
	}
	b.q.Submit(driver.Op{Kind: driver.OpWaitCond, Gate: b.b.StoreFar(m, 0x41424344)})
	if err := b.wait(); err != nil || string(b.their()[5000:5008]) != "DCBAve b" || wrote.Load() != 2 {
		t.Errorf("stored: %v, %q; the owner heard of %d writes", err, b.their()[5000:5008], wrote.Load())
	}
	b.ok(b.b.Unmap(b.at + size))
	b.ok(m.Free())
	k.Withdraw()
}
