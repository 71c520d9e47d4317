// Package randprog generates random programs for every driver, together with the bytes that each must leave.
//
// A program is text: calls of the C API by several threads, with the results that they must have. Two interpreters run
// it, one through the C library (capi/test/testdata/random.c), one through the core (internal/conformance). A program
// is free of races and deadlocks. Conflicting accesses are ordered by events, notifies, values, synchronisation or a
// hand-over between threads. A call that waits depends on earlier lines only. So a wrong byte or a hang is a fault of
// the runtime.
package randprog

import (
	"encoding/binary"
	"fmt"
	"strings"
)

// Program is a random program.
type Program struct {
	Seed    uint64
	Product string
	Devices int
	Threads int
	Slots   int
	Lines   []Line

	streams []*stream
}

// Line is one call. Its text is the name of a function of the API, or one of these:
//
//	after T N      waits until thread T has returned from its N-th line
//	until V CALL   repeats CALL until the int32 that it writes is V
//	set &S V       writes V to slot S
//	malloc &S N    allocates N bytes of pageable memory, page-aligned
//	free #S        frees them
//	write P N X    the host writes the pattern X
//	check P N X    the host compares the hash of the bytes with X
//	load &S        loads a binary with the kernel mix
//	idle &S        loads a binary with the kernel idle, which does nothing
//	fail CODE      makes the next task fail with CODE
//
// Arguments are numbers, "#3+8" (the value of slot 3, plus 8), "&3" (the address of slot 3), "[ … ]" (the address of
// an array of 64-bit words), "@f" (a host function), "@n" (a function that does nothing), "@r" (the id of the thread
// that processes reports), "@g" (a page that is not there), "@e8" (the 8 bytes before it) or a string in quotes.
// "= CODE" is the result that is not 0; "= *" is any.
//
// The host function takes an array: what to do, address, bytes, value. 0 sleeps for that many microseconds, 1 adds the
// value to each byte. The kernel mix is that of internal/driver/drivertest.
type Line struct {
	Thread int
	Text   string
	op     *op // nil: a hand-over or a change of context
}

// Text returns the program for an interpreter: a line with product, devices, threads and slots, then the lines of all
// threads.
func (p *Program) Text() string {
	var b strings.Builder
	fmt.Fprintln(&b, p.Product, p.Devices, p.Threads, p.Slots)
	for _, l := range p.Lines {
		fmt.Fprintln(&b, l.Thread, l.Text)
	}
	return b.String()
}

// Stuck says who waits for whom, given the number of lines that each thread has returned from. It names the line that
// each thread is in and, for each stream, the first task that may not be over and what it waits for.
func (p *Program) Stuck(returned []int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d is stuck\n", p.Seed)
	var over clock
	done := make([]int, p.Threads)
	for _, l := range p.Lines {
		switch done[l.Thread]++; {
		case done[l.Thread] <= returned[l.Thread] && l.op != nil:
			over.join(l.op.known)
		case done[l.Thread] == returned[l.Thread]+1:
			fmt.Fprintf(&b, "thread %d is in line %d: %s\n", l.Thread, done[l.Thread], l.Text)
		}
	}
	queued := func(o *op) bool { return o.line <= returned[o.thread.id] }
	for _, s := range p.streams {
		waits, open := 0, 0
		for _, l := range p.Lines {
			o := l.op
			if o == nil || o.stream != s || !queued(o) || o.isOver(over) {
				continue
			}
			if open++; open == 1 {
				fmt.Fprintf(&b, "stream %d (%s): the first task that may not be over is %d.%d %s\n", s.index, s.ref(),
					l.Thread, o.line, l.Text)
			}
			if waits == 3 || o.source == nil {
				continue
			}
			waits++
			state := "queued"
			switch {
			case !queued(o.source):
				state = "not queued"
			case o.source.isOver(over):
				state = "over"
			}
			fmt.Fprintf(&b, "\t%d.%d %s\n\twaits for %d.%d %s, which is %s\n", l.Thread, o.line, l.Text,
				o.source.thread.id, o.source.line, o.source.text, state)
		}
	}
	return b.String()
}

// Pattern writes the bytes that a number stands for.
func Pattern(b []byte, x uint64) {
	for i := 0; i < len(b); i += 8 {
		x = x*6364136223846793005 + 1442695040888963407
		var word [8]byte
		binary.LittleEndian.PutUint64(word[:], x^x>>29)
		copy(b[i:], word[:])
	}
}

// Hash returns a number for bytes.
func Hash(b []byte) uint64 {
	h := uint64(14695981039346656037)
	for ; len(b) >= 8; b = b[8:] {
		h = (h ^ binary.LittleEndian.Uint64(b)) * 1099511628211
		h ^= h >> 32
	}
	for _, v := range b {
		h = (h ^ uint64(v)) * 1099511628211
	}
	return h
}
