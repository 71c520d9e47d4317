package bench

import (
	"errors"
	"fmt"

	"ropeway"
	"ropeway/internal/arena"
	"ropeway/internal/ui"
)

// roundMemory is the memory of a round. Buffers are as large as the largest case needs them, and made when the first
// case does.
type roundMemory struct {
	rt      *ropeway.Runtime
	devices []*ropeway.Device
	peers   bool // device 0 reaches device 1
	pattern []byte
	buffers map[spot]memory
	needs   map[spot]int
	staging memory // for what is read back to be compared; pinned
	base    [2]memory
}

// spot is what a buffer is for.
type spot struct {
	device, load int
	kind         string
	source       bool
}

// memory is a buffer, or ordinary memory.
type memory struct {
	buf  *ropeway.Buffer // nil: pageable
	host []byte          // nil: of a device
}

func (m memory) span(off, n int) ropeway.Span {
	if m.buf == nil {
		return ropeway.Pageable(m.host[off : off+n])
	}
	return m.buf.Range(off, n)
}

// spots are the source and destination of a load, whose stream is on device.
func (c Case) spots(device, load int) (src, dst spot) {
	host := spot{device, load, c.Memory, true}
	dev := spot{device, load, onDevice, true}
	switch c.Direction {
	case HostToDevice:
		dev.source = false
		return host, dev
	case DeviceToHost:
		host.source = false
		return dev, host
	}
	dst = spot{device, load, onDevice, false}
	if c.Direction == PeerToPeer {
		dst.device++
	}
	return dev, dst
}

// openMemory takes the devices and looks whether there is enough memory.
func openMemory(rt *ropeway.Runtime, cases []Case) (*roundMemory, error) {
	r := &roundMemory{rt: rt, buffers: map[spot]memory{}, needs: map[spot]int{}}
	for i := range min(Devices(cases), rt.DeviceCount()) {
		d, err := rt.Device(i)
		if err != nil {
			return nil, err
		}
		r.devices = append(r.devices, d)
	}
	if len(r.devices) == 0 {
		return nil, &ui.Advice{Err: errors.New("there are no devices"),
			Next: "check ROPEWAY_DEVICES and ASCEND_RT_VISIBLE_DEVICES: ropeway info shows them"}
	}
	largest := 0
	for _, c := range cases {
		largest = max(largest, c.region())
		for i := range c.loads() {
			src, dst := c.spots(i/c.Streams, i%c.Streams)
			r.needs[src] = max(r.needs[src], c.region()+shift)
			r.needs[dst] = max(r.needs[dst], c.region())
		}
	}
	total := 2*(largest+shift) + 2*max(largest+shift, limitBytes) // pattern, staging, base
	for s, n := range r.needs {
		if s.kind != onDevice || rt.Driver() == "soft" {
			total += n
		}
	}
	if left := arena.NewBudget().Available() / 4 * 3; uint64(total) > left {
		return nil, &ui.Advice{Err: fmt.Errorf("this takes %s of memory, and %s are left", ui.Bytes(uint64(total)),
			ui.Bytes(left)),
			Next: "leave the large ones out, like --sizes 64,4KiB,1MiB, or use fewer --streams and --devices"}
	}
	r.pattern = newPattern(largest, 1)
	var err error
	pinned := func(m *memory, n int) {
		if err == nil {
			*m, err = r.make(r.devices[0], Pinned, n)
		}
	}
	pinned(&r.staging, largest)
	pinned(&r.base[0], max(largest, limitBytes))
	pinned(&r.base[1], max(largest, limitBytes))
	if err != nil {
		return nil, err
	}
	copy(r.base[1].host, r.pattern)
	clear(r.base[0].host)
	return r, nil
}

// at is the buffer for a spot; a source has the pattern in it.
func (r *roundMemory) at(s spot) (memory, error) {
	m, found := r.buffers[s]
	if found {
		return m, nil
	}
	dev := r.devices[s.device]
	n := r.needs[s]
	m, err := r.make(dev, s.kind, n)
	if err != nil {
		return memory{}, err
	}
	content := r.pattern[:n]
	switch {
	case m.host != nil && s.source:
		copy(m.host, content)
	case m.host != nil:
		clear(m.host)
	case s.source:
		err = dev.Copy(m.span(0, n), ropeway.Pageable(content))
	default:
		err = dev.Fill(m.span(0, n), 0)
	}
	r.buffers[s] = m
	return m, err
}

// make allocates.
func (r *roundMemory) make(dev *ropeway.Device, kind string, n int) (memory, error) {
	var b *ropeway.Buffer
	var err error
	switch kind {
	case Pageable:
		return memory{host: make([]byte, n)}, nil
	case Pinned:
		b, err = dev.AllocPinned(n)
	case Registered:
		b, err = dev.Register(make([]byte, n))
	default:
		b, err = dev.Alloc(n)
	}
	if errors.Is(err, ropeway.ErrRTMemoryAllocation) {
		err = &ui.Advice{Err: fmt.Errorf("no room for %s of %s memory: %w", ui.Bytes(uint64(n)), kind, err),
			Next: "leave the large ones out, like --sizes 64,4KiB,1MiB, or use fewer --streams and --devices"}
	}
	if err != nil {
		return memory{}, err
	}
	return memory{buf: b, host: b.Bytes()}, nil
}

// reach lets device 0 copy to device 1.
func (r *roundMemory) reach() error {
	if r.peers {
		return nil
	}
	err := r.devices[0].EnablePeer(r.devices[1])
	r.peers = err == nil
	return err
}
