package finding

import "strings"

// Trim cuts the frames of the C and C++ runtime off the outer end of a stack: what starts main and threads says nothing
// about a program. One frame stays at least.
func Trim(stack []Frame) []Frame {
	for len(stack) > 1 && starts(&stack[len(stack)-1]) {
		stack = stack[:len(stack)-1]
	}
	return stack
}

// starts reports whether a frame is of what starts main or a thread.
func starts(f *Frame) bool {
	name, _, _ := strings.Cut(f.Function, "@")
	switch name {
	case "":
		return f.File == "" && SystemLibrary(f.Module)
	case "_start", "__libc_start_main", "__libc_start_main_impl", "__libc_start_call_main", "start_thread",
		"clone", "__clone",
		"clone3", "__clone3", "thread_start", "execute_native_thread_routine":
		return true
	}
	name = strings.TrimPrefix(name, "void ")
	return strings.HasPrefix(name, "std::__invoke") || strings.HasPrefix(name, "std::thread::_")
}
