package far

import (
	"fmt"

	"ropeway/internal/driver"
	"ropeway/internal/pod"
)

// Memory that the host cannot access (driver.HostViewer), such as GPU memory, is accessed by copies of its driver:
// through pinned buffers here, and through a mirror on the owner's server.

const stageBytes = 1 << 20 // size of a pinned buffer

// staging is a part of a copy between memory of the driver below and memory of another server.
type staging struct {
	of     *memory
	write  bool
	here   uintptr
	off, n uint64
}

// stage makes such copies, one after another.
func (d *Driver) stage(list []staging) error {
	buffer, err := d.takeBuffer()
	if err != nil {
		return err
	}
	defer d.giveBuffer(buffer)
	wait := make(chan error, 1)
	done := func(err error) { wait <- err }
	for _, s := range list {
		for at := uint64(0); at < s.n; at += stageBytes {
			n := min(stageBytes, s.n-at)
			seg := []pod.Segment{{Local: buffer, Offset: s.off + at, N: n}}
			here := s.here + uintptr(at)
			if s.write {
				if err := d.Driver.Run(driver.Op{Kind: driver.OpCopy, Dst: buffer, Src: here, N: n}); err != nil {
					return err
				}
				s.of.remote.Write(seg, done)
			} else {
				s.of.remote.Read(seg, done)
			}
			if err := <-wait; err != nil {
				return translate(err)
			}
			if s.write {
				continue
			}
			if err := d.Driver.Run(driver.Op{Kind: driver.OpCopy, Dst: here, Src: buffer, N: n}); err != nil {
				return err
			}
		}
	}
	return nil
}

// takeBuffer returns a pinned buffer, and giveBuffer keeps it for the next copy.
func (d *Driver) takeBuffer() (uintptr, error) {
	d.mu.Lock()
	if n := len(d.buffers); n > 0 {
		b := d.buffers[n-1]
		d.buffers = d.buffers[:n-1]
		d.mu.Unlock()
		return b, nil
	}
	d.mu.Unlock()
	return d.Driver.AllocHost(stageBytes)
}

func (d *Driver) giveBuffer(b uintptr) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.buffers = append(d.buffers, b)
}

// mirror is memory of the driver below that other servers have imported.
type mirror struct {
	d  *Driver
	at uintptr // address of its mapping for the mirror
}

// newMirror maps memory until the mirror is closed.
func (d *Driver) newMirror(m driver.Memory) (*mirror, error) {
	at, err := d.mapper.Reserve(m.Size(), 0)
	if err != nil {
		return nil, err
	}
	if err := d.mapper.Map(at, m); err != nil {
		d.mapper.Release(at) //nolint:errcheck // the first failure counts
		return nil, err
	}
	return &mirror{d, at}, nil
}

// Load implements pod.Mirror.
func (m *mirror) Load(offset uint64, to []byte) error {
	return m.d.Driver.Run(driver.Op{Kind: driver.OpCopy, Dst: addressOf(to), Src: m.at + uintptr(offset),
		N: uint64(len(to))})
}

// Store implements pod.Mirror.
func (m *mirror) Store(offset uint64, from []byte) error {
	return m.d.Driver.Run(driver.Op{Kind: driver.OpCopy, Dst: m.at + uintptr(offset), Src: addressOf(from),
		N: uint64(len(from))})
}

// Close implements pod.Mirror.
func (m *mirror) Close() {
	m.d.mapper.Unmap(m.at)   //nolint:errcheck // it may have been lost with its device
	m.d.mapper.Release(m.at) //nolint:errcheck // only addresses would leak
}

// exportMirror is ExportFar for memory that is accessed by copies.
func (d *Driver) exportMirror(m driver.Memory, asked uint64, open bool) (driver.FarExport, error) {
	if _, far := m.(*memory); far {
		return nil, fmt.Errorf("%w: memory of another server", driver.ErrUnsupported)
	}
	mi, err := d.newMirror(m)
	if err != nil {
		return nil, err
	}
	about := pod.About{Size: m.Size(), Asked: asked, Device: m.Device(), Page: int(m.Page())}
	x, err := d.node.ExportMirror(mi, about, open)
	if err != nil {
		return nil, err
	}
	return export{x}, nil
}
