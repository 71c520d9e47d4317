//go:build amd64 && !noasm && !race

package memcopy

import (
	"bytes"
	_ "embed"
	"encoding/binary"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strings"
	"testing"
)

// These tests run the AVX-512 kernels on any CPU, with the interpreter.

// avx512Kernels are the programs behind kernelsAVX512, by field.
func avx512Kernels(t testing.TB) []*program {
	k := &kernelsAVX512
	var all []*program
	for _, f := range []any{k.copyPages, k.copyLinear, k.copyTemporal, k.fillStream, k.fillTemporal} {
		all = append(all, mustProgram(t, routineName(f)))
	}
	return all
}

// around are lengths next to b, on both sides of every step.
func around(b int) []int {
	var all []int
	for _, d := range []int{-257, -256, -129, -128, -127, -65, -64, -63, -1, 0, 1, 63, 64, 65, 127, 128, 129, 255, 256, 257} {
		all = append(all, b+d)
	}
	return all
}

// TestInterpAVX512 calls each kernel alone, with every length that its contract
// allows up to some pages, and at every alignment.
func TestInterpAVX512(t *testing.T) {
	r := newRig(3 << 20)
	call := func(p *program, dst, src, n uint64) {
		if err := r.call(p, dst, src, n); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range avx512Kernels(t) {
		c := p.contract()
		thin := uint64(stride())
		for n := c.min; n <= max(2*c.step, shortLengths); n += c.step {
			for a := n / c.step % thin; a < 64; a += thin {
				call(p, somewhere+a*c.align, elsewhere+a, n)
				call(p, somewhere+a*c.align, elsewhere+(a*7+n/64)%64, n)
			}
		}
		// Every line of a page for dst, or every byte of four lines, with some src.
		for _, n := range []uint64{c.min, c.min + c.step, c.min + 3*c.step} {
			for a := uint64(0); a < 256/min(c.align, 4); a += thin {
				for _, s := range []uint64{0, 1, 32, 63, pageBytes - 1} {
					call(p, somewhere+a*c.align, elsewhere+s, n)
				}
			}
		}
		for _, b := range []int{2 * pageBytes, 4 * pageBytes, pagesStep, 2 * pagesStep, 4 * pagesStep, sliceBytes, 2 * sliceBytes} {
			sizes := map[uint64]bool{}
			for _, n := range around(b) {
				sizes[max(c.min, uint64(n)/c.step*c.step)] = true
			}
			for n := range sizes {
				for _, a := range []uint64{0, 1, 31, 33, 63} {
					if n < sliceBytes/2 || a == 33 {
						call(p, somewhere+a*c.align, elsewhere+a*5, n)
					}
				}
			}
		}
		// Ranges that touch, and ones at the ends of the address space.
		n := c.min + c.step
		call(p, somewhere, somewhere+n, n)
		call(p, somewhere+n/64*64, somewhere+n/64*64-n, n)
		call(p, -n/c.align*c.align-c.align, 1, n)
		call(p, 64, -n, n)
	}
}

// arena stands in for the CPU below the dispatcher: its kernels run in the
// interpreter, on real memory, and fail on a call outside their contract or
// outside the ranges that the test asked for.
type arena struct {
	t        *testing.T
	dst, src region
	d, s, n  int // what is being copied or filled
	calls    map[string]int
}

func (a *arena) run(p *program, dst, src, n uintptr, word uint64) {
	a.calls[p.name]++
	c := p.contract()
	if uint64(dst)%c.align != 0 || uint64(n)%c.step != 0 || uint64(n) < c.min {
		a.t.Fatalf("%s(%#x, %#x, %d) breaks the contract %+v", p.name, dst, src, n, c)
	}
	if strings.Contains(p.name, "Stream") && n > sliceBytes {
		a.t.Fatalf("%s cannot be preempted in %d bytes", p.name, n)
	}
	within := func(addr uintptr, r region, off int) span {
		o := int(addr - r.addr)
		if o < off || o+int(n) > off+a.n {
			a.t.Fatalf("%s: %d bytes at %d are not in the %d at %d", p.name, n, o, a.n, off)
		}
		return span{lo: uint64(addr), data: r.data[o : o+int(n)]}
	}
	to := within(dst, a.dst, a.d)
	to.write = true
	mem := &memory{spans: []span{to}}
	args := []uint64{uint64(dst), uint64(n), word}
	if !c.fill {
		if overlap(dst, src, n) {
			a.t.Fatalf("%s: the ranges overlap", p.name)
		}
		from := within(src, a.src, a.s)
		from.read = true
		mem.spans = append(mem.spans, from)
		args = []uint64{uint64(dst), uint64(src), uint64(n)}
	}
	if err := p.run(mem, args...); err != nil {
		a.t.Fatal(err)
	}
}

// verify checks for want and canaries around it, and paints over it. It is
// checkIsland for very many calls.
func (a *arena) verify(want []byte) {
	const margin = 64
	end := a.d + a.n
	before, after := a.dst.data[max(0, a.d-margin):a.d], a.dst.data[end:min(len(a.dst.data), end+margin)]
	if !bytes.Equal(a.dst.data[a.d:end], want) || !bytes.Equal(before, canaries[:len(before)]) || !bytes.Equal(after, canaries[:len(after)]) {
		checkIsland(a.t, a.dst, a.d, want, margin)
	}
	for b := a.dst.data[a.d:end]; len(b) > 0; {
		b = b[copy(b, canaries):]
	}
}

var canaries = bytes.Repeat([]byte{canary}, pageBytes)

// newArena makes the kernels of a new arena the active ones.
func newArena(t *testing.T, dst, src region) *arena {
	a := &arena{t: t, dst: dst, src: src, calls: map[string]int{}}
	copying := func(f func(dst, src, n uintptr)) func(dst, src, n uintptr) {
		p := mustProgram(t, routineName(f))
		return func(dst, src, n uintptr) { a.run(p, dst, src, n, 0) }
	}
	filling := func(f func(dst, n uintptr, word uint64)) func(dst, n uintptr, word uint64) {
		p := mustProgram(t, routineName(f))
		return func(dst, n uintptr, word uint64) { a.run(p, dst, 0, n, word) }
	}
	k := &kernelsAVX512
	old := active
	t.Cleanup(func() { active = old })
	active = &kernels{"interpreted", copying(k.copyPages), copying(k.copyLinear), copying(k.copyTemporal),
		filling(k.fillStream), filling(k.fillTemporal), nil}
	return a
}

func TestInterpAVX512Copy(t *testing.T) {
	src, dst := newRegion(t, largest), newRegion(t, largest)
	pattern(src.data)
	paint(dst.data, canary)
	a := newArena(t, dst, src)
	for _, c := range copiers {
		check := func(d, s, n int) {
			a.d, a.s, a.n = d, s, n
			c.f(dst.addr+uintptr(d), src.addr+uintptr(s), uintptr(n))
			a.verify(src.data[s : s+n])
		}
		least := max(c.min, map[string]int{"Copy": copyLargeMin, "CopyStream": streamMin}[c.name])
		for n := least; n <= shortLengths; n++ {
			for d := n % stride(); d < 64; d += stride() {
				check(192+d, 192, n)
				check(192+d, 192+(d*7+n)%64, n)
			}
		}
		for _, b := range []int{streamMin, 4096, 8192, pagesStep, 2 * pagesStep} {
			for i, n := range around(b) {
				for d := i % stride(); d < 64 && n >= least; d += stride() {
					check(192+d, 192+(d+i*13)%64, n)
					if b <= 8192 {
						check(192+d, 192+d, n)
						check(192+d, 192, n)
						check(192+d, len(src.data)-n, n)
					}
				}
			}
		}
		for _, b := range []int{sliceBytes, sliceBytes + pagesStep, 2*sliceBytes + pagesStep, copyStreamMin, copyStreamMin + pagesStep} {
			for i, n := range around(b) {
				if few := 2 * min(stride(), 4); n >= least && i%few == b/pagesStep%few {
					check((i*37+1)%64, (i*11)%64, n)
				}
			}
			check(len(dst.data)-b, len(src.data)-b, b)
		}
	}
	for _, p := range avx512Kernels(t)[:3] {
		if t.Logf("%s: %d calls", p.name, a.calls[p.name]); a.calls[p.name] == 0 {
			t.Errorf("%s was not called", p.name)
		}
	}
}

// TestInterpAVX512Overlap: the kernels do not promise memmove, so no overlap may
// reach them; ranges that only touch do.
func TestInterpAVX512Overlap(t *testing.T) {
	mem := newRegion(t, 2*largest)
	fresh, want := make([]byte, len(mem.data)), make([]byte, len(mem.data))
	pattern(fresh)
	a := newArena(t, mem, mem)
	for _, n := range []int{2048, 5000, 70001, copyLargeMin + 3, copyStreamMin + 5} {
		for _, shift := range []int{0, 1, 63, 64, 65, 128, 4096, n / 2, n - 64, n - 1, n, n + 1} {
			for _, forward := range []bool{true, false} {
				for _, c := range copiers[:3] {
					if c.name == "Copy" && n < copyLargeMin || testing.Short() && n > 70001 && shift < n-1 {
						continue
					}
					a.d, a.s, a.n = 64+shift, 64, n
					if !forward {
						a.d, a.s = a.s, a.d
					}
					span := 64 + shift + n + 64
					copy(mem.data[:span], fresh)
					copy(want[:span], fresh)
					copy(want[a.d:a.d+n], want[a.s:a.s+n])
					clear(a.calls)
					c.f(mem.addr+uintptr(a.d), mem.addr+uintptr(a.s), uintptr(n))
					calls := len(a.calls)
					if !bytes.Equal(mem.data[:span], want[:span]) {
						t.Fatalf("%s of %d bytes shifted by %d, forward %v: wrong result", c.name, n, shift, forward)
					}
					if (calls != 0) != (shift >= n) {
						t.Fatalf("%s of %d bytes shifted by %d: %d kernels called", c.name, n, shift, calls)
					}
				}
			}
		}
	}
}

func TestInterpAVX512Fill(t *testing.T) {
	const most = fillStreamMin + 64<<10
	dst := newRegion(t, most)
	paint(dst.data, canary)
	a := newArena(t, dst, region{})
	want := make([]byte, most)
	for _, v := range []uint32{0x7E7E7E7E, 0x04030201} {
		period := 1
		if v != v<<8|v>>24 {
			period = 4
		}
		for i := 0; i < most; i += 4 {
			binary.NativeEndian.PutUint32(want[i:], v)
		}
		for _, f := range fillers {
			if f.name == "fillGeneric" {
				continue
			}
			check := func(d, n int) {
				n -= n % period
				a.d, a.n = d, n
				f.f(dst.addr+uintptr(d), v, uintptr(n))
				a.verify(want[:n])
			}
			for n := (f.min + 3) / 4 * 4; n <= shortLengths; n += period {
				for d := n / period % stride(); d < 64; d += stride() {
					check(192+d, n)
				}
			}
			for _, b := range []int{2048, 4096, 8192, pagesStep, sliceBytes, fillStreamMin} {
				for i, n := range around(b) {
					few := max(stride(), b/2048)
					for d := i * 5 % min(few, 64); d < 64; d += few {
						if b < sliceBytes || !testing.Short() || i%7 == 0 {
							check(192+d, n)
						}
					}
				}
				check(0, b)
				check(len(dst.data)-b, b)
			}
		}
	}
	for _, p := range avx512Kernels(t)[3:] {
		if t.Logf("%s: %d calls", p.name, a.calls[p.name]); a.calls[p.name] == 0 {
			t.Errorf("%s was not called", p.name)
		}
	}
}

//go:embed memcopy_amd64.go
var dispatcherText string

// implied are the features that a feature brings along: a CPU with AVX512F has
// AVX2, and AVX2 has AVX. The flags of x/sys also say that the operating system
// saves the registers: all of ZMM and the masks for AVX512F.
var implied = map[string][]string{
	"HasAVX":     {"AVX"},
	"HasAVX2":    {"AVX2", "AVX"},
	"HasAVX512F": {"AVX512F", "AVX2", "AVX"},
}

// detected returns the features that are certain where the package variable
// name, as memcopy_amd64.go sets it, is true.
func detected(t *testing.T, name string) []string {
	file, err := parser.ParseFile(token.NewFileSet(), "memcopy_amd64.go", dispatcherText, 0)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	var walk func(e ast.Expr)
	walk = func(e ast.Expr) {
		switch e := e.(type) {
		case *ast.BinaryExpr:
			if e.Op == token.LAND {
				walk(e.X)
				walk(e.Y)
				return
			}
		case *ast.SelectorExpr:
			if x, ok := e.X.(*ast.SelectorExpr); ok && x.Sel.Name == "X86" {
				features, known := implied[e.Sel.Name]
				if !known {
					features = []string{strings.TrimPrefix(e.Sel.Name, "Has")}
				}
				all = append(all, features...)
				return
			}
		}
		t.Fatalf("%s: unknown condition %T", name, e)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if v, ok := n.(*ast.ValueSpec); ok {
			if i := slices.IndexFunc(v.Names, func(id *ast.Ident) bool { return id.Name == name }); i >= 0 && i < len(v.Values) {
				walk(v.Values[i])
			}
		}
		return true
	})
	return all
}

// missing are the features that p needs beyond those of have, and why.
func (p *program) missing(have []string) (all []string) {
	for i, key := range p.forms {
		if f := forms[key].needs; f != "" && !slices.Contains(have, f) {
			all = append(all, p.line[i]+" needs "+f)
		}
	}
	return all
}

// TestKernelFeatures compares what the kernels need with what is asked of the CPU.
func TestKernelFeatures(t *testing.T) {
	have := map[string][]string{"AVX2": detected(t, "hasAVX2"), "AVX512": detected(t, "hasAVX512"), "": nil}
	uses := map[string]bool{}
	for name, p := range programs() {
		isa := widthSuffix.FindString(name)
		for _, m := range p.missing(have[isa]) {
			t.Errorf("%s: %s, and the CPU is asked for %v", name, m, have[isa])
		}
		for _, key := range p.forms {
			if f := forms[key].needs; f != "" {
				uses[isa+" kernels: "+key+" needs "+f] = true
			}
		}
	}
	list := []string{}
	for u := range uses {
		list = append(list, u)
	}
	slices.Sort(list)
	t.Logf("asked of the CPU: %v\n%s", have, strings.Join(list, "\n"))

	p := mustProgram(t, "copyTemporalAVX512")
	source := slices.Clone(p.source)
	source[slices.Index(source, "VMOVDQU64 (CX), Z0")] = "VMOVDQU8 (CX), Z0"
	bad, err := parse(source)
	if err != nil || len(bad.missing(have["AVX512"])) != 1 || len(p.missing(have["AVX2"])) == 0 {
		t.Errorf("a missing feature is not found (%v)", err)
	}
}

// TestIsIntel compares with what the kernel says.
func TestIsIntel(t *testing.T) {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		t.Skip(err)
	}
	if want := strings.Contains(string(text), "GenuineIntel"); isIntel() != want {
		t.Errorf("isIntel is %v, and /proc/cpuinfo says %v", isIntel(), want)
	}
}

// TestKernelChoice checks which kernels are chosen, and that each sits in its field.
func TestKernelChoice(t *testing.T) {
	setKernel(t, "generic") // to have the features put back
	defer func(was bool) { onIntel = was }(onIntel)
	for _, c := range []struct {
		avx512, avx2, intel bool
		want                *kernels
	}{
		{true, true, true, &kernelsAVX512}, {true, true, false, &kernelsAVX2}, {true, false, false, &kernelsAVX512},
		{false, true, true, &kernelsAVX2}, {false, false, true, nil},
	} {
		if hasAVX512, hasAVX2, onIntel = c.avx512, c.avx2, c.intel; choose() != c.want {
			t.Errorf("AVX-512 %v, AVX2 %v, Intel %v: wrong kernels", c.avx512, c.avx2, c.intel)
		}
	}
	for suffix, k := range map[string]*kernels{"AVX512": &kernelsAVX512, "AVX2": &kernelsAVX2} {
		for want, f := range map[string]any{"copyStreamPages": k.copyPages, "copyStreamLinear": k.copyLinear,
			"copyTemporal": k.copyTemporal, "fillStream": k.fillStream, "fillTemporal": k.fillTemporal, "copySegments": k.copySegments} {
			if got := routineName(f); got != want+suffix {
				t.Errorf("%s: %s in place of %s", k.name, got, want+suffix)
			}
		}
	}
}
