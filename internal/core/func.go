package core

// Func is a C function pointer where the API compares pointers. Key is the pointer, 0 for NULL; Call runs the
// function and is nil exactly when Key is 0.
type Func[F any] struct {
	Key  uintptr
	Call F
}

// named is a callback that the program registered under a name.
type named[F any] struct {
	name string
	call F
	args Addr
}

// registry is an ordered list of named callbacks. It is never changed, only replaced: a reader may call its functions
// with no lock held.
type registry[F any] []named[F]

// find is the place of a name, or -1.
func (r registry[F]) find(name string) int {
	for i := range r {
		if r[i].name == name {
			return i
		}
	}
	return -1
}

// with is the list with f under its name, in the place of one that has the name already.
func (r registry[F]) with(f named[F]) registry[F] {
	list := append(registry[F](nil), r...)
	if i := list.find(f.name); i >= 0 {
		list[i] = f
		return list
	}
	return append(list, f)
}

// without is the list without a name.
func (r registry[F]) without(name string) registry[F] {
	var list registry[F]
	for _, f := range r {
		if f.name != name {
			list = append(list, f)
		}
	}
	return list
}

// goString is what a C string says.
func goString(p *byte) string {
	var n uint64
	for Array(p, n+1)[n] != 0 {
		n++
	}
	return string(Array(p, n))
}
