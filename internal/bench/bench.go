// Package bench measures copies through package ropeway beside the machine's own memcpy.
//
// [Axes] list cases. A run measures each case once a round; between rounds everything is opened anew (by the
// command: in a new process), because where memory happens to lie changes speeds by more than the clock does. Beside
// each copy, in turn, memcpy moves the same bytes: on a shared machine speeds drift, and their ratios hardly do.
// [Result.WriteGo] writes the rounds for benchstat, which compares runs.
package bench

import (
	"fmt"
	"time"

	"ropeway/internal/ui"
)

// Case is one way to copy.
type Case struct {
	Direction string `json:"direction"` // one of [Directions]
	Memory    string `json:"memory"`    // on the host's side, one of [Memories]; "device" where there is none
	Size      int    `json:"size"`      // bytes of a copy or batch
	Segment   int    `json:"segment"`   // bytes of a segment of a batch; 0: whole copies
	Streams   int    `json:"streams"`   // of each device, all at once
	Devices   int    `json:"devices"`   // all at once
}

// The values that [Case] knows.
const (
	HostToDevice = "h2d"
	DeviceToHost = "d2h"
	InDevice     = "d2d"
	PeerToPeer   = "p2p"

	Pinned     = "pinned"
	Pageable   = "pageable"
	Registered = "registered"
	onDevice   = "device"
)

// Directions and Memories are all there are, in the order of reports.
var (
	Directions = []string{HostToDevice, DeviceToHost, InDevice, PeerToPeer}
	Memories   = []string{Pinned, Pageable, Registered}
)

// Series is what the case is besides its size: cases of one series make a curve.
func (c Case) Series() string {
	s := c.Direction
	if c.Memory != onDevice {
		s += " " + c.Memory
	}
	if c.Segment > 0 {
		s += fmt.Sprintf(", batch of %s", ui.Bytes(uint64(c.Segment)))
	}
	if c.Streams > 1 {
		s += fmt.Sprintf(", %d streams", c.Streams)
	}
	if c.Devices > 1 {
		s += fmt.Sprintf(", %d devices", c.Devices)
	}
	return s
}

// String names the case.
func (c Case) String() string { return c.Series() + ", " + ui.Bytes(uint64(c.Size)) }

// loads is how many streams copy at once.
func (c Case) loads() int { return c.Streams * c.Devices }

// slotBytes and mostCopies bound how many small copies make one sample; the bytes stay in the second cache of a core.
const (
	slotBytes  = 1 << 20
	mostCopies = 1024
)

// copies is how many copies or batches one stream gets before it is waited for. It depends on the case alone, so that
// runs can be compared.
func (c Case) copies() int {
	if c.Segment > 0 {
		return 1
	}
	return min(max(slotBytes/c.Size, 1), mostCopies)
}

// region is how many bytes one stream moves in a sample; no two copies write the same.
func (c Case) region() int { return c.copies() * c.Size }

// Bytes is how many bytes a sample moves.
func (c Case) Bytes() int { return c.region() * c.loads() }

// Point is a case with what was measured; the slices have one value a round, in seconds for moving [Case.Bytes].
type Point struct {
	Case
	Seconds   []float64 `json:"seconds,omitempty"`    // by ropeway
	Memcpy    []float64 `json:"memcpy,omitempty"`     // by memcpy on one thread
	MemcpyAll []float64 `json:"memcpy_all,omitempty"` // by memcpy on all CPUs
	Skipped   string    `json:"skipped,omitempty"`    // why there is nothing, "" if there is
}

// Machine is where a run was made.
type Machine struct {
	CPU    string `json:"cpu"`
	CPUs   int    `json:"cpus"`
	Kernel string `json:"kernel"`
	Go     string `json:"go"`
}

// About is what was measured.
type About struct {
	Driver  string `json:"driver"`
	Product string `json:"product"`
	Chip    string `json:"chip"`
	Devices int    `json:"devices"` // there are
	Memcpy  string `json:"memcpy"`  // whose it is
}

// Result is a run.
type Result struct {
	Version  int       `json:"version"`
	Ropeway  string    `json:"ropeway"`
	Started  time.Time `json:"started"`
	Duration float64   `json:"duration"` // seconds
	Machine  Machine   `json:"machine"`
	About
	Rounds   int     `json:"rounds"`
	Limit    float64 `json:"limit"`    // most bytes a second that all CPUs copied in this run
	Verified int64   `json:"verified"` // bytes that were compared
	Points   []Point `json:"points"`
}

// formatVersion is [Result.Version].
const formatVersion = 1
