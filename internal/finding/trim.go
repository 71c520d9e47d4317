package finding

import "strings"

// Trim removes the frames at the ends of a stack that say nothing about the program. At the outer end these are the
// frames of the C and C++ runtime that start main and threads, and GoogleTest with its callers; at the inner end,
// comparisons of a test framework. At least one frame remains.
func Trim(stack []Frame) []Frame {
	for len(stack) > 1 && comparesForTests(stack[0].Function) && !runsTests(stack[0].Function) {
		stack = stack[1:]
	}
	for i := 1; i < len(stack); i++ {
		if runsTests(stack[i].Function) {
			return stack[:i]
		}
	}
	for len(stack) > 1 && starts(&stack[len(stack)-1]) {
		stack = stack[:len(stack)-1]
	}
	return stack
}

// runsTests reports whether a function of GoogleTest calls the code of a program's test, fixture or environment.
func runsTests(function string) bool {
	name := strings.TrimPrefix(function, "void ")
	for _, runner := range [...]string{"testing::internal::HandleSehExceptionsInMethodIfSupported",
		"testing::internal::HandleExceptionsInMethodIfSupported", "testing::Test::Run", "testing::TestSuite::Run",
		"testing::internal::UnitTestImpl::RunAllTests"} {
		if strings.HasPrefix(name, runner) {
			return true
		}
	}
	return false
}

// comparesForTests reports whether a function belongs to GoogleTest.
func comparesForTests(function string) bool {
	name, _, _ := strings.Cut(function, "(")
	return strings.HasPrefix(name, "testing::") || strings.Contains(name, " testing::") // after the return type
}

// starts reports whether a frame belongs to the code that starts main or a thread.
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
