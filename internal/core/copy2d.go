package core

import (
	"math/bits"

	"ropeway/internal/abi"
	"ropeway/internal/driver"
)

const (
	maxWidth  = 5_000_000
	maxHeight = 5 << 20
)

// plane is the shape of a 2-D copy.
type plane struct {
	dst           Addr
	dpitch        uint64
	src           Addr
	spitch        uint64
	width, height uint64
}

// check is what the ACL layer looks at.
func (p *plane) check(api string, kind abi.MemcpyKind) *Error {
	switch {
	case p.dst == 0:
		return isNull(api, "dst")
	case p.src == 0:
		return isNull(api, "src")
	case p.width > p.spitch || p.width > p.dpitch:
		return invalid(api, "width", "%d is larger than a pitch (spitch %d, dpitch %d)", p.width, p.spitch, p.dpitch).because(OutOfBounds, 0)
	case kind < abi.MemcpyHostToDevice || kind > abi.MemcpyDefault:
		return invalid(api, "kind", "%d is not 1 to 4", kind)
	}
	return nil
}

// limits is what the runtime looks at.
func (p *plane) limits(api string) *Error {
	if p.height > maxHeight {
		return refused(api, "height", "%d is larger than %d", p.height, maxHeight)
	}
	if p.width > maxWidth {
		return refused(api, "width", "%d is larger than %d", p.width, maxWidth)
	}
	return nil
}

// span is how many bytes there are from the first to the last of the rows; all ones if that does not fit in 64 bits.
func (p *plane) span(pitch uint64) uint64 {
	hi, n := bits.Mul64(pitch, p.height-1)
	n, carry := bits.Add64(n, p.width, 0)
	if hi != 0 || carry != 0 {
		return ^uint64(0)
	}
	return n
}

// locate finds out where both ends are.
func (p *plane) locate(rt *Runtime, api string) (from, to driver.Location, err *Error) {
	if from, err = rt.locate(api, "src", p.src, p.span(p.spitch)); err != nil {
		return
	}
	to, err = rt.locate(api, "dst", p.dst, p.span(p.dpitch))
	return
}

func (p *plane) op() driver.Op {
	return driver.Op{Kind: driver.OpCopy2D, Dst: p.dst, Src: p.src, N: p.width, Height: p.height, DstPitch: p.dpitch, SrcPitch: p.spitch}
}

// wraps refuses rows whose addresses do not fit in 64 bits, which only pageable memory can have here.
func (p *plane) wraps(api string) *Error {
	if n := p.span(p.spitch); p.src+Addr(n) < p.src {
		return refused(api, "spitch", "%d rows of %d bytes go past the end of memory", p.height, p.spitch).because(OutOfBounds, p.src)
	}
	if n := p.span(p.dpitch); p.dst+Addr(n) < p.dst {
		return refused(api, "dpitch", "%d rows of %d bytes go past the end of memory", p.height, p.dpitch).because(OutOfBounds, p.dst)
	}
	return nil
}

// Memcpy2d is aclrtMemcpy2d: the rows have arrived when it returns.
func (t *Thread) Memcpy2d(dst Addr, dpitch uint64, src Addr, spitch, width, height uint64, kind abi.MemcpyKind) *Error {
	const api = "aclrtMemcpy2d"
	p := plane{dst, dpitch, src, spitch, width, height}
	if width == 0 || height == 0 {
		return nil
	}
	if err := p.check(api, kind); err != nil {
		return err
	}
	if err := p.limits(api); err != nil {
		return err
	}
	if t.rt.open {
		return unsupported(api, "", "2-D copies do not exist in RC form")
	}
	if kind == abi.MemcpyDeviceToDevice {
		return unsupported(api, "kind", "device to device works only in aclrtMemcpy2dAsync")
	}
	if t.current() == nil {
		return noContext(api)
	}
	from, to, err := p.locate(t.rt, api)
	if err != nil {
		return err
	}
	real, ok := correct(kind, from.Place, to.Place)
	if !ok || real != abi.MemcpyHostToDevice && real != abi.MemcpyDeviceToHost {
		return refused(api, "kind", "a copy from %s to %s is neither host to device nor device to host", placeName(from.Place), placeName(to.Place)).because(WrongDirection, 0)
	}
	if err := p.wraps(api); err != nil {
		return err
	}
	return t.compare(t.run(api, p.op()), kind, from.Place, to.Place, p.src, p.span(p.spitch))
}

// Memcpy2dAsync is aclrtMemcpy2dAsync. With pageable memory it waits for the stream and copies before it returns.
func (t *Thread) Memcpy2dAsync(dst Addr, dpitch uint64, src Addr, spitch, width, height uint64, kind abi.MemcpyKind, stream Handle) *Error {
	const api = "aclrtMemcpy2dAsync"
	p := plane{dst, dpitch, src, spitch, width, height}
	if width == 0 || height == 0 {
		return nil
	}
	if err := p.check(api, kind); err != nil {
		return err
	}
	s, err := t.stream(api, "stream", stream)
	if err != nil {
		return err
	}
	c := t.current()
	if err := t.noDefault(api, s, c); err != nil {
		return err
	}
	if err := p.limits(api); err != nil {
		return err
	}
	if t.rt.open {
		return unsupported(api, "", "2-D copies do not exist in RC form")
	}
	if c == nil {
		return noContext(api)
	}
	from, to, err := p.locate(t.rt, api)
	if err != nil {
		return err
	}
	real, ok := correct(kind, from.Place, to.Place)
	if !ok || real == abi.MemcpyHostToHost || real == abi.MemcpyDefault {
		return refused(api, "kind", "%v does not go with a copy from %s to %s", kind, placeName(from.Place), placeName(to.Place)).because(WrongDirection, 0)
	}
	if err := p.wraps(api); err != nil {
		return err
	}
	if hostIsPageable(real, from.Place, to.Place) || toPageable(from.Place, to.Place) {
		if t.rt.prod.LateHostErrors {
			return t.failLater(api, c, s, real)
		}
		return t.compare(t.copyPageable(api, c, s, p.op()), kind, from.Place, to.Place, p.src, p.span(p.spitch))
	}
	if s, err = c.on(api, s); err != nil {
		return err
	}
	if err := t.peers(api, c.dev, dst, src, from, to); err != nil {
		return err
	}
	if from.Place == driver.Managed || to.Place == driver.Managed {
		return t.launchManaged(api, s, p.op())
	}
	if err := s.admit(api); err != nil {
		return err
	}
	if t.rt.strict && !t.rt.prod.Modern && real == abi.MemcpyDeviceToDevice {
		return invalid(api, "kind", "a 2-D copy within a device is documented for 950, A3 and A2, not for the %s", t.rt.prod.Name)
	}
	return t.compare(s.launch(api, t, task{op: p.op()}), kind, from.Place, to.Place, p.src, p.span(p.spitch))
}
