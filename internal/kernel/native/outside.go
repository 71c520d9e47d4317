package native

import (
	"fmt"

	"golang.org/x/sys/unix"

	"ropeway/internal/kernel"
)

// elsewhere implements kernel.SharedObject: an object that the keeper has loaded.
type elsewhere struct {
	p      *process
	name   string // immutable; for people
	handle uint64
	data   []variables // where it has variables
	held
}

// variables are pages with variables of an object. They have one address in code of the object, and another one that is
// the same here and there, and that programs know.
type variables struct {
	at    uint64 // in the object
	bytes []byte // here
}

// Load implements kernel.CPU.
func (p *process) Load(name string, image []byte) (kernel.SharedObject, error) {
	f, _, err := file(name, image)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	a, err := p.keeper.ask(request{What: askLoad}, unique("/proc/self"), int(f.Fd()))
	if err != nil {
		return nil, fmt.Errorf("the shared object cannot be loaded: %w", fromLoader(name, err))
	}
	defer closeAll(a.files)
	o := &elsewhere{p: p, name: name, handle: a.Result}
	for i, fd := range a.files {
		v, err := p.place(fd, a.Data[i][1])
		if err != nil {
			o.Close()
			return nil, fmt.Errorf("the variables of the shared object have no place: %w", err)
		}
		o.data = append(o.data, variables{at: a.Data[i][0], bytes: v})
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.renew()
	return o, nil
}

// place maps a file where the keeper has room for it, too, and there.
func (p *process) place(fd int, size uint64) ([]byte, error) {
	var tried [][]byte
	defer func() {
		for _, b := range tried {
			unix.Munmap(b) //nolint:errcheck // ours
		}
	}()
	for {
		b, err := unix.Mmap(fd, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err != nil {
			return nil, err
		}
		_, err = p.keeper.ask(request{What: askMap, A: uint64(addressOf(b)), B: size}, "", fd)
		if err == nil {
			return b, nil
		}
		if tried = append(tried, b); err != unix.EEXIST || len(tried) == mostStarts {
			return nil, err
		}
	}
}

// Symbol implements kernel.SharedObject.
func (o *elsewhere) Symbol(name string) (uintptr, error) {
	a, err := o.p.keeper.ask(request{What: askSymbol, A: o.handle}, name)
	if err != nil {
		return 0, fromLoader(o.name, err)
	}
	return uintptr(a.Result), nil
}

// Variable implements kernel.Process.
func (p *process) Variable(object kernel.SharedObject, name string) (uintptr, error) {
	o := object.(*elsewhere)
	addr, err := o.Symbol(name)
	if err != nil {
		return 0, err
	}
	for _, v := range o.data {
		if off := uint64(addr) - v.at; off < uint64(len(v.bytes)) {
			return addressOf(v.bytes) + uintptr(off), nil
		}
	}
	return 0, fmt.Errorf("%s is constant: only kernels see it while they have a process of their own", name)
}

// Release implements kernel.SharedObject.
func (o *elsewhere) Release() {
	if o.ends() {
		o.unload()
	}
}

// Close implements kernel.SharedObject.
func (o *elsewhere) Close() {
	if o.closes() {
		o.unload()
	}
}

func (o *elsewhere) unload() {
	o.p.mu.Lock()
	o.p.renew()
	o.p.mu.Unlock()
	o.p.keeper.send(request{What: askClose, A: o.handle}, "") //nolint:errcheck // then nothing is left of it
	for _, v := range o.data {
		o.p.keeper.send(request{What: askUnmap, A: uint64(addressOf(v.bytes)), //nolint:errcheck // likewise
			B: uint64(len(v.bytes))}, "")
		unix.Munmap(v.bytes) //nolint:errcheck // ours
	}
}
