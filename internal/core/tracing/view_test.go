package tracing

import (
	"testing"

	"ropeway/internal/driver"
	"ropeway/internal/observe"
)

// places is a driver whose memory is in fixed places: one page of each kind.
type places struct{ driver.Driver }

const (
	pageable = iota << 12
	host
	deviceA
	deviceB
	managed
)

func (places) Locate(addr uintptr) driver.Location {
	return [...]driver.Location{{}, {Place: driver.Host}, {Place: driver.OnDevice}, {Place: driver.OnDevice, Device: 1},
		{Place: driver.Managed}}[addr>>12]
}

// calls is a tracer that wants no sites.
type calls struct{ observe.Tracer }

func (calls) Sites() bool                 { return false }
func (calls) Function(name string) uint16 { return uint16(len(name)) }

// TestTask: direction and host memory of copies, of batches that mix them, and what registering changes.
func TestTask(t *testing.T) {
	v := New(places{}, calls{})
	copyOf := func(dst, src uintptr) driver.Op { return driver.Op{Kind: driver.OpCopy, Dst: dst, Src: src, N: 64} }
	batch := func(list ...driver.Segment) driver.Op {
		return driver.Op{Kind: driver.OpBatch, Segs: &driver.Segments{List: list}}
	}
	check := func(what string, op driver.Op, d observe.Direction, m observe.Memory) {
		t.Helper()
		if w := v.Task(&op); w.Direction != d || w.Memory != m {
			t.Errorf("%s: direction %d, memory %d, want %d, %d", what, w.Direction, w.Memory, d, m)
		}
	}
	check("up", copyOf(deviceA, host), observe.HostToDevice, observe.Pinned)
	check("down", copyOf(pageable, deviceA), observe.DeviceToHost, observe.Pageable)
	check("within", copyOf(deviceA, deviceA+64), observe.DeviceToDevice, observe.NoHostMemory)
	check("across", copyOf(deviceB, deviceA), observe.Peer, observe.NoHostMemory)
	check("managed", copyOf(deviceA, managed), observe.HostToDevice, observe.Managed)
	check("a mixed batch", batch(driver.Segment{Dst: deviceA, Src: host}, driver.Segment{Dst: pageable, Src: deviceA}),
		observe.Both, observe.Mixed)
	v.Register(host, 4096)
	check("registered", copyOf(deviceA, host+64), observe.HostToDevice, observe.Registered)
	v.Unregister(host)
	check("unregistered", copyOf(deviceA, host), observe.HostToDevice, observe.Pinned)
	if n := v.Called("aclrtMemcpy"); n != 11 {
		t.Errorf("the number of a call is %d", n)
	}
	if v.Number() != 1 || v.Number() != 2 {
		t.Error("tasks in no stream are not numbered from 1")
	}
}
