package callback

import "slices"

// Func is a C function pointer that the API compares with others. Key is the pointer, 0 for NULL; Call runs the
// function and is nil exactly if Key is 0.
type Func[F any] struct {
	Key  uintptr
	Call F
}

// Named is a callback that the program registered under a name.
type Named[F any] struct {
	Name string
	Call F
	Args uintptr
}

// Registry is an ordered list of named callbacks. It is never changed, only replaced: a reader may call its functions
// with no lock held.
type Registry[F any] []Named[F]

// Has reports whether there is a callback with a name.
func (r Registry[F]) Has(name string) bool { return r.find(name) >= 0 }

// find returns the index of a name, or -1.
func (r Registry[F]) find(name string) int {
	return slices.IndexFunc(r, func(f Named[F]) bool { return f.Name == name })
}

// With returns the list with f, which replaces a callback of the same name.
func (r Registry[F]) With(f Named[F]) Registry[F] {
	list := slices.Clone(r)
	if i := list.find(f.Name); i >= 0 {
		list[i] = f
		return list
	}
	return append(list, f)
}

// Without returns the list without the callback of a name.
func (r Registry[F]) Without(name string) Registry[F] {
	return slices.DeleteFunc(slices.Clone(r), func(f Named[F]) bool { return f.Name == name })
}
