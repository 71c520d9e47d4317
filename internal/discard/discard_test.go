package discard

import (
	"encoding/hex"
	"strings"
	"testing"

	"ropeway/internal/testenv"
)

// The code that a call returns to, as gcc and clang write it, and whether it drops the value. Each part is a frame of
// the stack.
var cases = []struct {
	name  string
	drops bool
	code  []string
}{
	// mov -8(%rbp),%rax
	{"the next call", true, []string{"48 8b 45 f8  48 89 c7  e8 00 00 00 00"}},
	// mov %r12,%rdi; call
	{"a call with what is there", true, []string{"4c 89 e7  e8 00 00 00 00"}},
	// mov $0,%al; call
	{"arguments that vary", true, []string{"bf 01 00 00 00  b0 00  e8 00 00 00 00"}},
	// mov $0,%eax; leave; ret
	{"return 0", true, []string{"b8 00 00 00 00  c9 c3"}},
	// xor %eax,%eax
	{"return 0, small", true, []string{"31 c0  48 83 c4 08  c3"}},
	// nop; leave; ret / lea
	{"a function without a value", true, []string{"90 c9 c3", "48 8d 45 f0  c3"}},
	// add; ret / mov
	{"its value is returned and dropped", true, []string{"48 83 c4 08 c3", "b8 03 00 00 00"}},
	// jg over xor, to call
	{"a loop", true, []string{"83 c3 01  39 1d 00 00 00 00  7f 02  31 c0  e8 00 00 00 00"}},
	// jmp to jmp *x(%rip)
	{"a call at the end", true, []string{"48 83 c4 08  e9 04 00 00 00  0f 0b 0f 0b  ff 25 00 00 00 00"}},
	// nopl 0(%rax); xchg %ax,%ax
	{"an empty instruction with the register", true, []string{"0f 1f 40 00  66 90  31 c0"}},
	{"a mark for jumps", true, []string{"f3 0f 1e fa  31 c0"}}, // endbr64
	{"floating point", true, []string{"f2 0f 10 05 00 00 00 00  f2 0f 58 c0  e8 00 00 00 00"}},

	{"it is stored", false, []string{"89 45 fc  e8 00 00 00 00"}},                // mov %eax,-4(%rbp)
	{"it is kept", false, []string{"89 c3  31 c0  e8 00 00 00 00"}},              // mov %eax,%ebx
	{"it is tested", false, []string{"85 c0  74 02  31 c0  c3"}},                 // test %eax,%eax
	{"it is compared", false, []string{"3d a0 86 01 00  b8 00 00 00 00"}},        // cmp $100000,%eax
	{"it is an argument", false, []string{"89 c7  e8 00 00 00 00"}},              // mov %eax,%edi; call ok
	{"it is pushed", false, []string{"50  31 c0"}},                               // push %rax
	{"it is an index", false, []string{"48 8b 04 c5 00 00 00 00  c3"}},           // mov table(,%rax,8),%rax
	{"it is returned and stored", false, []string{"c9 c3", "89 45 fc  31 c0"}},   // leave; ret / mov
	{"it is returned to an unknown caller", false, []string{"c9 c3"}},            //
	{"it is used on one path", false, []string{"85 db  74 02  31 c0  89 45 fc"}}, // test %ebx,%ebx; je; xor; mov %eax
	{"it is extended", false, []string{"48 98  31 c0"}},                          // cltq
	{"a part of it is used", false, []string{"b0 00  0f b6 c0"}},                 // mov $0,%al; movzbl %al,%eax
	{"it is called", false, []string{"ff d0"}},                                   // call *%rax
	{"a table of a switch", false, []string{"ff e2"}},                            // jmp *%rdx
	{"an instruction that is not known", false, []string{"0f a2  31 c0"}},        // cpuid
	{"it never ends", false, []string{"eb fe"}},                                  // jmp .
	{"no code can be read", false, []string{""}},
}

// TestBy: a value counts as dropped if nothing can read it any more, on any path, and only then.
func TestBy(t *testing.T) {
	if !understood {
		t.Skip("the code of this machine is not followed")
	}
	const apart = 1 << 20
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var frames [][]byte
			var returns []uintptr
			for i, text := range c.code {
				b, err := hex.DecodeString(strings.ReplaceAll(text, " ", ""))
				testenv.OK(t, err)
				frames = append(frames, b)
				returns = append(returns, uintptr(i+1)*apart)
			}
			got := By(returns, func(at uintptr, b []byte) int {
				f, offset := frames[at/apart-1], at%apart
				return copy(b, f[min(offset, uintptr(len(f))):])
			})
			if got != c.drops {
				t.Errorf("dropped: %v, want %v", got, c.drops)
			}
		})
	}
}

// TestNoStack: where nothing is known of the stack, nothing is said.
func TestNoStack(t *testing.T) {
	if By(nil, Self) || By([]uintptr{16}, Self) {
		t.Error("a value is dropped by nobody")
	}
}
