package memory

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"

	"ropeway/internal/driver"
	"ropeway/internal/driver/cuda/libcuda"
	"ropeway/internal/ranges"
)

// Created memory is passed to other processes as a file of CUDA, an allocation as a handle of 64 bytes in the note.
// CUDA chooses the address of an opened allocation; if it is mapped, its addresses are translated. CUDA shares whole
// pages of an allocation, with any other data in them, and frees them when the exporting process does, even if others
// have imported them.
//
// CUDA refuses to open a handle in the process that created it. Then the importer uses the memory itself, which is
// freed after the importer has released it.

var _ driver.Sharer = (*Space)(nil)

// The note of an allocation is this process's tag, a number of the export, and CUDA's handle.
const noteBytes = 16 + 8 + libcuda.IPCBytes

// exports holds the shared allocations of this process, of all drivers.
var exports struct {
	mu   sync.Mutex
	tag  [16]byte                         // guarded by mu; the tag of the process; zeros until needed
	last uint64                           // guarded by mu
	live map[uint64]*export               // guarded by mu; by number
	at   map[*ranges.Span[*block]]*export // guarded by mu; the same, by block
}

// export is a shared allocation.
type export struct {
	span   *ranges.Span[*block] // immutable
	number uint64               // immutable
	note   []byte               // immutable
	users  int                  // guarded by exports.mu; importers in this process
	over   bool                 // guarded by exports.mu; it was freed; the last user frees the memory
}

// processTag identifies this process. exports.mu is held.
func processTag() []byte {
	for exports.tag == [16]byte{} {
		rand.Read(exports.tag[:]) //nolint:errcheck // it never fails
	}
	return exports.tag[:]
}

// keptForImporters ends the export of a block that is being freed, and reports whether importers keep its memory.
func keptForImporters(s *ranges.Span[*block]) bool {
	exports.mu.Lock()
	defer exports.mu.Unlock()
	e := exports.at[s]
	if e == nil {
		return false
	}
	delete(exports.live, e.number)
	delete(exports.at, s)
	e.over = true
	return e.users > 0
}

// Share implements driver.Sharer.
func (d *Space) Share(mem driver.Memory) (*driver.Shared, error) {
	m, ok := mem.(*physical)
	if !ok || m.d != d {
		return nil, fmt.Errorf("%w: memory of another driver", driver.ErrUnsupported)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return m.share()
}

// share is Share with Space.mu held.
func (m *physical) share() (*driver.Shared, error) {
	switch {
	case m.freed && len(m.at) == 0:
		return nil, fmt.Errorf("%w: memory that was freed", driver.ErrNotAllocated)
	case m.gone:
		return nil, fmt.Errorf("%w: memory of a device that was closed", driver.ErrClosed)
	case m.opened != 0:
		return nil, fmt.Errorf("%w: memory of another process; that one can share it once more", driver.ErrUnsupported)
	}
	fd := -1
	err := m.within("cuMemExportToShareableHandle", func(lib libcuda.API) (r libcuda.Result) {
		fd, r = lib.MemExport(m.handle)
		return r
	})
	if errors.Is(err, libcuda.ErrRefused) {
		err = fmt.Errorf("%w: %v", driver.ErrUnsupported, err)
	}
	if err != nil {
		return nil, err
	}
	return &driver.Shared{File: os.NewFile(uintptr(fd), "ropeway-shared"), Size: m.size, Device: m.device,
		Page: m.page}, nil
}

// ShareAt implements driver.Sharer.
func (d *Space) ShareAt(addr uintptr) (*driver.Shared, error) {
	d.shares.Store(true)
	d.mu.Lock()
	defer d.mu.Unlock()
	if r := d.virtual.reserved.Find(addr); r != nil {
		if m := r.Of.mappings[addr]; m != nil && !m.gone {
			return m.of.share()
		}
		return nil, fmt.Errorf("%w: no mapping starts at %#x", driver.ErrNotAllocated, addr)
	}
	s := d.own.Find(addr)
	if s == nil || s.Start != addr {
		return nil, fmt.Errorf("%w: no allocation starts at %#x", driver.ErrNotAllocated, addr)
	}
	if s.Of.kind != deviceBlock {
		return nil, fmt.Errorf("%w: only device memory is shared", driver.ErrUnsupported)
	}
	e, err := d.export(s)
	if err != nil {
		return nil, err
	}
	sh := &driver.Shared{Note: slices.Clone(e.note), Size: s.Of.size, Device: int(s.Of.device), Page: driver.PageNormal}
	if s.Of.huge {
		sh.Page = driver.PageHugeFirst
	}
	return sh, nil
}

// export shares a block. d.mu is held.
func (d *Space) export(s *ranges.Span[*block]) (*export, error) {
	exports.mu.Lock()
	defer exports.mu.Unlock()
	if e := exports.at[s]; e != nil {
		return e, nil
	}
	var handle [libcuda.IPCBytes]byte
	err := d.gpus[s.Of.device].Within("cuIpcGetMemHandle", func(lib libcuda.API) libcuda.Result {
		return lib.IPCGetMemHandle(s.Start, &handle)
	})
	if errors.Is(err, libcuda.ErrRefused) {
		err = fmt.Errorf("%w: %v", driver.ErrUnsupported, err)
	}
	if err != nil {
		return nil, err
	}
	exports.last++
	e := &export{span: s, number: exports.last}
	e.note = append(binary.LittleEndian.AppendUint64(append(e.note, processTag()...), e.number), handle[:]...)
	if exports.live == nil {
		exports.live, exports.at = map[uint64]*export{}, map[*ranges.Span[*block]]*export{}
	}
	exports.live[e.number], exports.at[s] = e, e
	return e, nil
}

// Import implements driver.Sharer.
func (d *Space) Import(s *driver.Shared) (driver.Memory, error) {
	if s.Device < driver.OnHost || s.Device >= len(d.gpus) || s.Size == 0 || s.Offset+s.Size < s.Size {
		return nil, fmt.Errorf("%w: no device %d here, or no bytes", driver.ErrFault, s.Device)
	}
	m := &physical{d: d, device: s.Device, page: s.Page}
	var err error
	switch {
	case s.File != nil:
		err = m.importFile(s)
	case len(s.Note) == noteBytes && s.Device != driver.OnHost:
		err = m.importHandle(s)
	default:
		err = fmt.Errorf("%w: neither a file nor a handle", driver.ErrFault)
	}
	if err != nil {
		return nil, err
	}
	d.know(m)
	return m, nil
}

// foreign is within for a call about memory of another process. CUDA's error is about that memory, not about the GPU:
// an H200 returns "unknown error" for a file that is not CUDA's, and keeps working.
func (m *physical) foreign(call string, f func(lib libcuda.API) libcuda.Result) error {
	var r libcuda.Result
	if err := m.within(call, func(lib libcuda.API) libcuda.Result { r = f(lib); return libcuda.Success }); err != nil {
		return err
	}
	err := libcuda.Failed(m.d.lib, call, r)
	if r != libcuda.Success && r != libcuda.OutOfMemory {
		err = fmt.Errorf("%w: CUDA does not take it: %v", driver.ErrFault, err)
	}
	return err
}

// importFile imports m from a file. CUDA does not report its size, and refuses to map another size.
func (m *physical) importFile(s *driver.Shared) error {
	m.size = s.Offset + s.Size
	if m.size%extent != 0 || m.size > mostHost {
		return fmt.Errorf("%w: %d bytes are not a multiple of 2 MiB", driver.ErrFault, m.size)
	}
	err := m.foreign("cuMemImportFromShareableHandle", func(lib libcuda.API) (r libcuda.Result) {
		m.handle, r = lib.MemImport(int(s.File.Fd()))
		return r
	})
	if err != nil {
		return err
	}
	if err = m.foreign("cuMemMap", m.try); err != nil {
		return errors.Join(err, m.end())
	}
	return nil
}

// try maps the memory to check its size and place.
func (m *physical) try(lib libcuda.API) libcuda.Result {
	addr, r := lib.MemAddressReserve(m.size, extent, 0)
	if r != libcuda.Success {
		return r
	}
	if r = lib.MemMap(addr, m.size, m.handle); r == libcuda.Success {
		r = lib.MemSetAccess(addr, m.size, m.place())
		lib.MemUnmap(addr, m.size)
	}
	lib.MemAddressFree(addr, m.size)
	return r
}

// importHandle imports m from CUDA's handle.
func (m *physical) importHandle(s *driver.Shared) error {
	tag, number, handle := s.Note[:16], binary.LittleEndian.Uint64(s.Note[16:]), [libcuda.IPCBytes]byte(s.Note[24:])
	exports.mu.Lock()
	own := string(tag) == string(processTag())
	if e := exports.live[number]; own && e != nil && int(e.span.Of.device) == m.device {
		e.users++
		m.opened, m.size, m.lent = e.span.Start, e.span.Of.size, e
	}
	exports.mu.Unlock()
	if own && m.lent == nil {
		return fmt.Errorf("%w: this process does not share it any more", driver.ErrFault)
	}
	if !own {
		err := m.foreign("cuIpcOpenMemHandle", func(lib libcuda.API) (r libcuda.Result) {
			m.opened, m.size, r = lib.IPCOpenMemHandle(&handle)
			return r
		})
		if err != nil {
			return err
		}
	}
	if m.size < s.Offset+s.Size || m.opened%16 != 0 {
		return errors.Join(fmt.Errorf("%w: %d bytes at %d of %d", driver.ErrFault, s.Size, s.Offset, m.size),
			m.closeOpened())
	}
	m.d.open(m)
	return nil
}

// open lets copies use the memory that m has opened.
func (d *Space) open(m *physical) {
	d.mu.Lock()
	defer d.mu.Unlock()
	v := &d.virtual
	if v.openings == nil {
		v.openings = map[uintptr]int{}
	}
	if v.openings[m.opened]++; v.openings[m.opened] == 1 {
		v.foreign.Insert(&ranges.Span[int32]{Start: m.opened, Size: m.size, Of: int32(m.device)})
	}
}

// shut undoes open. d.mu is held.
func (d *Space) shut(m *physical) {
	v := &d.virtual
	if v.openings[m.opened]--; v.openings[m.opened] == 0 {
		delete(v.openings, m.opened)
		d.Gone.Lock()
		v.foreign.Remove(v.foreign.Find(m.opened))
		d.Gone.Unlock()
	}
}

// closeOpened closes the memory that m has opened. No work uses it.
func (m *physical) closeOpened() error {
	if m.lent == nil {
		return m.within("cuIpcCloseMemHandle", func(lib libcuda.API) libcuda.Result {
			return lib.IPCCloseMemHandle(m.opened)
		})
	}
	exports.mu.Lock()
	m.lent.users--
	last := m.lent.over && m.lent.users == 0
	exports.mu.Unlock()
	if last {
		return m.within("cuMemFree", func(lib libcuda.API) libcuda.Result { return lib.MemFree(m.opened) })
	}
	return nil
}
