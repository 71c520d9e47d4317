package transfer

import (
	"math/bits"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/memory"
	"ropeway/internal/driver"
)

const (
	maxWidth  = 5_000_000
	maxHeight = 5 << 20
)

// plane is the shape of a 2-D copy.
type plane struct {
	dst           core.Addr
	dpitch        uint64
	src           core.Addr
	spitch        uint64
	width, height uint64
}

// rowsFit refuses rows that are longer than their pitch.
func rowsFit(_ *core.Thread, api string, width, spitch, dpitch uint64) *core.Error {
	if width > spitch || width > dpitch {
		return core.Invalid(api, "width", "%d is larger than a pitch (spitch %d, dpitch %d)", width, spitch,
			dpitch).Because(core.OutOfBounds, 0)
	}
	return nil
}

// limits makes the runtime's checks.
func (p *plane) limits(api string) *core.Error {
	if p.height > maxHeight {
		return core.Refused(api, "height", "%d is larger than %d", p.height, maxHeight)
	}
	if p.width > maxWidth {
		return core.Refused(api, "width", "%d is larger than %d", p.width, maxWidth)
	}
	return nil
}

// span returns the number of bytes from the first to the last row; all ones if that does not fit in 64 bits.
func (p *plane) span(pitch uint64) uint64 {
	hi, n := bits.Mul64(pitch, p.height-1)
	n, carry := bits.Add64(n, p.width, 0)
	if hi != 0 || carry != 0 {
		return ^uint64(0)
	}
	return n
}

// locate returns the locations of both ends.
func (p *plane) locate(rt *core.Runtime, api string) (from, to driver.Location, err *core.Error) {
	if from, err = rt.Locate(api, "src", p.src, p.span(p.spitch)); err != nil {
		return
	}
	to, err = rt.Locate(api, "dst", p.dst, p.span(p.dpitch))
	return
}

func (p *plane) op() driver.Op {
	return driver.Op{Kind: driver.OpCopy2D, Dst: p.dst, Src: p.src, N: p.width, Height: p.height, DstPitch: p.dpitch,
		SrcPitch: p.spitch}
}

// wraps refuses rows whose addresses do not fit in 64 bits, which is only possible here for pageable memory.
func (p *plane) wraps(api string) *core.Error {
	if n := p.span(p.spitch); p.src+core.Addr(n) < p.src {
		return core.Refused(api, "spitch", "%d rows of %d bytes go past the end of memory", p.height,
			p.spitch).Because(core.OutOfBounds, p.src)
	}
	if n := p.span(p.dpitch); p.dst+core.Addr(n) < p.dst {
		return core.Refused(api, "dpitch", "%d rows of %d bytes go past the end of memory", p.height,
			p.dpitch).Because(core.OutOfBounds, p.dst)
	}
	return nil
}

// Memcpy2d is aclrtMemcpy2d: the rows have arrived when it returns.
func Memcpy2d(t *core.Thread, dst core.Addr, dpitch uint64, src core.Addr, spitch, width, height uint64,
	kind abi.MemcpyKind) *core.Error {
	const api = "aclrtMemcpy2d"
	p := plane{dst, dpitch, src, spitch, width, height}
	if done, err := checkMemcpy2d(t, dst, dpitch, src, spitch, width, height, kind); done {
		return err
	}
	if t.Runtime.OneMemory {
		return core.Unsupported(api, "", "2-D copies do not exist in RC form")
	}
	if kind == abi.MemcpyDeviceToDevice {
		return core.Unsupported(api, "kind", "device to device works only in aclrtMemcpy2dAsync")
	}
	if t.Current() == nil {
		return core.NoCurrentContext(api)
	}
	from, to, err := p.locate(t.Runtime, api)
	if err != nil {
		return err
	}
	real, ok := core.CorrectKind(kind, from.Place, to.Place)
	if !ok || real != abi.MemcpyHostToDevice && real != abi.MemcpyDeviceToHost {
		return core.Refused(api, "kind", "a copy from %s to %s is neither host to device nor device to host",
			core.PlaceName(from.Place), core.PlaceName(to.Place)).Because(core.WrongDirection, 0)
	}
	if err := t.WhileCaptured(api, t.Current()); err != nil {
		return err
	}
	if err := p.wraps(api); err != nil {
		return err
	}
	return t.Compare(t.Run(api, p.op()), kind, from.Place, to.Place, p.src, p.span(p.spitch))
}

// Memcpy2dAsync is aclrtMemcpy2dAsync. With pageable memory it waits for the stream and copies before it returns.
func Memcpy2dAsync(t *core.Thread, dst core.Addr, dpitch uint64, src core.Addr, spitch, width, height uint64,
	kind abi.MemcpyKind, stream core.Handle) *core.Error {
	const api = "aclrtMemcpy2dAsync"
	p := plane{dst, dpitch, src, spitch, width, height}
	s, done, err := checkMemcpy2dAsync(t, dst, dpitch, src, spitch, width, height, kind, stream)
	if done {
		return err
	}
	c := t.Current()
	if err := t.NoDefault(api, s, c); err != nil {
		return err
	}
	if err := p.limits(api); err != nil {
		return err
	}
	if t.Runtime.OneMemory {
		return core.Unsupported(api, "", "2-D copies do not exist in RC form")
	}
	if c == nil {
		return core.NoCurrentContext(api)
	}
	from, to, err := p.locate(t.Runtime, api)
	if err != nil {
		return err
	}
	real, ok := core.CorrectKind(kind, from.Place, to.Place)
	if !ok || real == abi.MemcpyHostToHost || real == abi.MemcpyDefault {
		return core.Refused(api, "kind", "%v does not go with a copy from %s to %s", kind, core.PlaceName(from.Place),
			core.PlaceName(to.Place)).Because(core.WrongDirection, 0)
	}
	if err := p.wraps(api); err != nil {
		return err
	}
	if core.HostIsPageable(real, from.Place, to.Place) || core.ToPageable(from.Place, to.Place) {
		if t.Runtime.Product.LateHostErrors {
			return failLater(t, api, c, s, real)
		}
		return t.Compare(copyPageable(t, api, c, s, p.op()), kind, from.Place, to.Place, p.src, p.span(p.spitch))
	}
	if s, err = c.On(api, s); err != nil {
		return err
	}
	if err := Peers(t, api, c.Device, dst, src, from, to); err != nil {
		return err
	}
	if from.Place == driver.Managed || to.Place == driver.Managed {
		return memory.LaunchManaged(t, api, s, p.op())
	}
	if err := s.Admit(api); err != nil {
		return err
	}
	if t.Runtime.Strict && !t.Runtime.Product.Modern && real == abi.MemcpyDeviceToDevice {
		return core.Invalid(api, "kind", "a 2-D copy within a device is documented for 950, A3 and A2, not for the %s",
			t.Runtime.Product.Name)
	}
	return t.Compare(s.Launch(api, t, core.Task{Op: p.op()}), kind, from.Place, to.Place, p.src, p.span(p.spitch))
}
