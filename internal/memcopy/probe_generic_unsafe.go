//go:build !amd64 || noasm

package memcopy

import "sync/atomic"

// probeRead touches addr, the first byte of each later page up to last, and last.
func probeRead(addr, last uintptr) {
	for ; last-addr/pageBytes*pageBytes >= pageBytes; addr = addr/pageBytes*pageBytes + pageBytes {
		atomic.LoadUint32(word(addr))
	}
	atomic.LoadUint32(word(addr))
	atomic.LoadUint32(word(last))
}

// probeWrite touches addr, the first byte of each later page up to last, and last.
func probeWrite(addr, last uintptr) {
	for ; last-addr/pageBytes*pageBytes >= pageBytes; addr = addr/pageBytes*pageBytes + pageBytes {
		atomic.OrUint32(word(addr), 0)
	}
	atomic.OrUint32(word(addr), 0)
	atomic.OrUint32(word(last), 0)
}

// word returns the aligned word that contains addr, which is on the same page.
func word(addr uintptr) *uint32 { return (*uint32)(pointer(addr &^ 3)) }
