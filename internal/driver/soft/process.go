package soft

import (
	"slices"

	"ropeway/internal/arena"
	"ropeway/internal/kernel"
)

// Kernels in a process of their own (Options.KernelProcess). All memory that they may use is in files, and those are
// mapped there at the addresses that they have here: device memory, pinned and managed memory, what is mapped into
// reservations. Registered memory is the program's own, and stays here. The windows of this process stay closed.

// cpuFor is what runs the kernels of a binary.
func (d *Driver) cpuFor(image []byte) (kernel.CPU, error) {
	cpu, err := kernel.OnCPU(image)
	if err != nil || !d.outside || kernel.IsFunctions(image) {
		return cpu, err
	}
	k := &d.kernels
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.process == nil {
		if _, err := d.hostArena(); err != nil { // arguments are there: its addresses are taken before others are
			return nil, err
		}
		p, err := kernel.StartProcess(d.views())
		if err != nil {
			return nil, err
		}
		k.process = p
	}
	return k.process, nil
}

// views is the memory that kernels see, sorted by address.
func (d *Driver) views() (list []kernel.View) {
	for i := range d.windows {
		at := d.base + uintptr(i)<<d.shift
		room := uint64(1) << d.shift
		if a := d.windows[i].Load(); a != nil {
			list = append(list, viewsOf(a)...)
			at, room = at+uintptr(a.Capacity()), room-a.Capacity()
		}
		if room > 0 { // it may be device memory later
			list = append(list, kernel.View{Addr: at, Size: room})
		}
	}
	if a := d.host.Load(); a != nil {
		list = append(list, viewsOf(a)...)
	}
	v := &d.virtual
	v.mu.Lock()
	for m := range v.memories {
		for _, at := range m.at {
			view := kernel.View{Addr: at.start, Size: m.size, Of: m.file}
			if m.block != nil {
				view.Of, view.Off = sourceOf(m.block)
			}
			list = append(list, view)
		}
	}
	for _, m := range v.managed {
		list = append(list, kernel.View{Addr: m.start, Size: m.size, Of: m.file})
	}
	v.mu.Unlock()
	slices.SortFunc(list, func(a, b kernel.View) int {
		if a.Addr < b.Addr {
			return -1
		}
		return 1
	})
	return list
}

func sourceOf(b *arena.Block) (kernel.Source, uint64) {
	if f := b.Separated(); f != nil {
		return f, 0
	}
	a, off := b.Place()
	return a, off
}

// viewsOf is the memory of an arena: its file, and those that parts of it have for themselves.
func viewsOf(a *arena.Arena) (list []kernel.View) {
	at, end := a.Base(), a.Base()+uintptr(a.Capacity())
	own := func(to uintptr) {
		if at < to {
			list = append(list, kernel.View{Addr: at, Size: uint64(to - at), Of: a, Off: uint64(at - a.Base())})
		}
	}
	for _, s := range a.Separated() {
		own(s.Start)
		list = append(list, kernel.View{Addr: s.Start, Size: s.Size, Of: s.File})
		at = s.Start + uintptr(s.Size)
	}
	own(end)
	return list
}

// variable is where a variable of the binary is.
func (m *module) variable(symbol string) (uintptr, error) {
	if m.outside != nil {
		return m.outside.Variable(m.object, symbol)
	}
	return m.object.Symbol(symbol)
}
