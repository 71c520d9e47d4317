package finding

import (
	"slices"
	"testing"
)

// TestTrim: frames that start main and threads are cut off, wherever the program's own code ends; no others are.
func TestTrim(t *testing.T) {
	named := func(names ...string) (stack []Frame) {
		for _, name := range names {
			stack = append(stack, Frame{Function: name})
		}
		return stack
	}
	libc := Frame{Module: "/lib/x86_64-linux-gnu/libc.so.6", Address: 7}
	for _, tt := range []struct {
		name       string
		stack      []Frame
		wantFrames int
	}{
		{"main", named("load", "main", "__libc_start_call_main", "__libc_start_main_impl", "_start"), 2},
		{"main of an older glibc", named("main", "__libc_start_main@@GLIBC_2.34", "_start"), 1},
		{"a thread", named("worker", "start_thread", "clone3"), 1},
		{"a C++ thread", named("main::{lambda()#1}::operator()() const",
			"void std::__invoke_impl<void, main::{lambda()#1}>(std::__invoke_other)",
			"std::thread::_Invoker<std::tuple<main::{lambda()#1}> >::operator()()", "execute_native_thread_routine",
			"start_thread", "clone3"), 1},
		{"libc without names", append(named("worker"), libc, libc), 1},
		{"a program's own function with a name like it", named("clone", "restart", "main"), 3},
		{"nothing but the runtime", named("_start"), 1},
		{"a test of GoogleTest", named("load", "Load_Reads_Test::TestBody()",
			"void testing::internal::HandleSehExceptionsInMethodIfSupported<testing::Test, void>(testing::Test*, "+
				"void (testing::Test::*)(), char const*)", "testing::Test::Run()", "main"), 2},
		{"a fixture of GoogleTest", named("Load::SetUpTestSuite()", "testing::TestSuite::Run()", "main"), 1},
		{"a comparison for a test", named("testing::internal::CmpHelperEQ<char, int>",
			"std::string testing::PrintToString<char>(char const&)", "check(int, testing::Fixture&)", "main"), 2},
		{"a mock of a test", named("fill", "testing::internal::FunctionMocker<void ()>::Invoke()", "load",
			"Load_Reads_Test::TestBody()", "testing::Test::Run()"), 4},
		{"none", nil, 0},
		{"the program's code without names", []Frame{{Module: "/opt/app", Address: 9}, {Function: "_start"}}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := Trim(slices.Clone(tt.stack)); len(got) != tt.wantFrames {
				t.Errorf("%d frames are left, want %d: %+v", len(got), tt.wantFrames, got)
			}
		})
	}
}

// TestModuleAndOffset: a frame without a name is printed as its offset in its file, which does not change from run to
// run.
func TestModuleAndOffset(t *testing.T) {
	l := Layout{}
	if got := l.frame(Frame{Module: "/opt/app", Address: 0x5589509df21c, Inside: 0x121c}); got != "app+0x121c" {
		t.Error(got)
	}
	if got := l.frame(Frame{Address: 0x55}); got != "0x55" {
		t.Error(got)
	}
}
