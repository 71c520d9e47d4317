package dl

import "github.com/ebitengine/purego"

// Callback is the address of a C function that calls fn, whose parameters and result, if it has one, are words. It is
// never freed, and a process has a few thousand of them: make one for each function of the program, not for each
// object.
func Callback(fn any) uintptr { return purego.NewCallback(fn) }
