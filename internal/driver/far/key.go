package far

import (
	"encoding/binary"
	"errors"
	"fmt"

	"ropeway/internal/driver"
	"ropeway/internal/pod"
)

// A place is the number of the server, 10 bits, and the port of the process, 16.

// PlaceFar implements driver.Fabric.
func (d *Driver) PlaceFar() (uint32, error) {
	port, err := d.node.Port()
	if err != nil {
		return 0, err
	}
	return uint32(d.node.Config().Me().ID)<<16 | uint32(port), nil
}

// ServerFar implements driver.Fabric.
func (d *Driver) ServerFar(place uint32) int { return int(place >> 16) }

// HasServer implements driver.Fabric.
func (d *Driver) HasServer(server int) bool { return d.node.Config().Has(server) }

// OfferFar implements driver.Fabric.
func (d *Driver) OfferFar(s *driver.Shared, secret [24]byte, wrote func()) (driver.FarKey, error) {
	if s.File == nil || d.viewer == nil && wrote == nil { // memory of a GPU has no file
		return nil, fmt.Errorf("%w: memory that is in no file", driver.ErrUnsupported)
	}
	about := pod.About{Size: s.Size, Device: s.Device, Page: int(s.Page)}
	x, err := d.node.Offer(s.File, s.Offset, about, secret, wrote)
	if err != nil {
		return nil, err
	}
	return x, nil
}

// OpenFar implements driver.Fabric.
func (d *Driver) OpenFar(place uint32, secret [24]byte, device int) (driver.Memory, error) {
	h := pod.Handle{Pod: d.node.Config().Pod, Server: uint16(place >> 16), Port: uint16(place), Secret: secret}
	r, err := d.remote(h)
	if err != nil {
		return nil, err
	}
	if r.Size == 0 || r.Size > 1<<56 {
		r.Close() //nolint:errcheck // it cannot be used
		return nil, fmt.Errorf("%w: %d bytes", driver.ErrFault, r.Size)
	}
	return &memory{d: d, remote: r, device: device, page: driver.PageHugeFirst}, nil
}

// remote opens memory of another server.
func (d *Driver) remote(h pod.Handle) (*pod.Remote, error) {
	r, err := d.node.Import(h)
	switch {
	case errors.Is(err, pod.ErrNotAllowed):
		return nil, fmt.Errorf("%w: %w", driver.ErrNotAllowed, err)
	case errors.Is(err, pod.ErrUnknown):
		return nil, unknown{err}
	case err != nil:
		return nil, fmt.Errorf("%w: %w", driver.ErrLost, err)
	}
	return r, nil
}

// unknown is the error of another server that does not know the memory, with its text.
type unknown struct{ error }

// Unwrap implements errors.Is.
func (u unknown) Unwrap() []error { return []error{driver.ErrNotAllocated, u.error} }

// StoreFar implements driver.Fabric.
func (d *Driver) StoreFar(m driver.Memory, value uint32) driver.FailingGate {
	return &wordStore{flight: flight{d: d, start: func(x *flight) error {
		x.pattern = binary.LittleEndian.AppendUint32(newBuffer(4)[:0], value)
		x.more()
		m.(*memory).remote.Write([]pod.Segment{{Local: addressOf(x.pattern), N: 4}},
			func(err error) { x.ended(translate(err)) })
		return nil
	}}}
}
