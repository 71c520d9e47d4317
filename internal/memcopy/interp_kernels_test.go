//go:build amd64 && !noasm && !race

package memcopy

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"reflect"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/cpu"
)

// contract is what a kernel asks of its caller.
type contract struct {
	fill             bool
	align, step, min uint64 // of dst; of n
}

var contracts = map[string]contract{
	"copyStreamPages":  {false, lineBytes, pagesStep, pagesStep},
	"copyStreamLinear": {false, lineBytes, linearStep, linearStep},
	"copyTemporal":     {false, lineBytes, temporalStep, temporalStep},
	"fillStream":       {true, lineBytes, fillStep, fillStep},
	"fillTemporal":     {true, 1, 1, fillStep},
}

var widthSuffix = regexp.MustCompile(`AVX(2|512)$`)

func (p *program) contract() contract {
	return contracts[widthSuffix.ReplaceAllString(p.name, "")]
}

// routineName is the name of an assembly routine of this package.
func routineName(f any) string {
	name := runtime.FuncForPC(reflect.ValueOf(f).Pointer()).Name()
	return name[strings.LastIndexByte(name, '.')+1:]
}

// rig calls kernels with ranges at any address. It keeps memory from one call
// to the next.
type rig struct{ dst, src, junk []byte }

func newRig(most int) *rig {
	r := &rig{make([]byte, most), make([]byte, most), make([]byte, most)}
	pattern(r.src)
	for i, b := range r.src {
		r.junk[i] = ^b
	}
	return r
}

// copy has p copy n bytes. Every byte of dst differs before, so that one left
// out shows.
func (r *rig) copy(p *program, dst, src, n uint64) error {
	d, s := r.dst[:n], r.src[:n]
	copy(d, r.junk)
	err := p.run(&memory{spans: []span{{lo: dst, data: d, write: true}, {lo: src, data: s, read: true}}}, dst, src, n)
	if err == nil && !bytes.Equal(d, s) {
		err = fmt.Errorf("%s: wrong result", p.name)
	}
	if err != nil {
		err = fmt.Errorf("copy of %d bytes from %#x to %#x: %w", n, src, dst, err)
	}
	return err
}

// patternFor is a word whose period divides n.
func patternFor(n uint64) uint64 {
	switch {
	case n%8 == 0:
		return 0x0807060504030201
	case n%4 == 0:
		return 0xD4C3B2A1D4C3B2A1
	case n%2 == 0:
		return 0x5EA75EA75EA75EA7
	}
	return 0x3939393939393939
}

// fill has p fill n bytes.
func (r *rig) fill(p *program, dst, n uint64) error {
	d, v := r.dst[:n], patternFor(n)
	var word [8]byte
	binary.LittleEndian.PutUint64(word[:], ^v)
	copy(d, word[:])
	for done := uint64(8); done < n; done *= 2 {
		copy(d[done:], d[:done])
	}
	err := p.run(&memory{spans: []span{{lo: dst, data: d, write: true}}}, dst, n, v)
	binary.LittleEndian.PutUint64(word[:], v)
	// All is right if the first word is and each byte is the one 8 before.
	if err == nil && (!bytes.Equal(d[:8], word[:]) || !bytes.Equal(d[8:], d[:n-8])) {
		err = fmt.Errorf("%s: wrong result", p.name)
	}
	if err != nil {
		err = fmt.Errorf("fill of %d bytes at %#x: %w", n, dst, err)
	}
	return err
}

// call runs p, a copy or fill kernel, under its contract.
func (r *rig) call(p *program, dst, src, n uint64) error {
	if p.contract().fill {
		return r.fill(p, dst, n)
	}
	return r.copy(p, dst, src, n)
}

const (
	somewhere = 0x7F0000000000
	elsewhere = 0x00C000000000
)

// quick runs a kernel over the few cases that tell a wrong one from a right one.
func (r *rig) quick(p *program) error {
	c := p.contract()
	for _, m := range []uint64{0, 1, 2, 3, 4} {
		n := c.min + m*c.step
		if c.step == 1 {
			n = []uint64{256, 300, 511, 512, 777}[m]
		}
		if m > 1 && n > 3*pagesStep {
			break
		}
		for _, a := range []uint64{0, 1, 40} {
			if err := r.call(p, somewhere+a*c.align, elsewhere+a, n); err != nil {
				return err
			}
		}
	}
	return nil
}

// probe checks that p touches what its comment says: addr, the first byte of
// each later page up to last, and last. Nothing changes.
func probe(p *program, addr, n uint64) error {
	data := make([]byte, n)
	pattern(data)
	before := slices.Clone(data)
	mem := &memory{traced: true, spans: []span{{lo: addr, data: data, read: true, write: p.name == "probeWrite"}}}
	last := addr + n - 1
	if err := p.run(mem, addr, last); err != nil {
		return fmt.Errorf("probe of %d bytes at %#x: %w", n, addr, err)
	}
	want := []uint64{addr}
	for left := n - 1; left >= pageBytes-(last-left)%pageBytes; {
		step := pageBytes - (last-left)%pageBytes
		left -= step
		want = append(want, last-left)
	}
	want = append(want, last)
	if !slices.Equal(mem.trace, want) || !bytes.Equal(data, before) {
		return fmt.Errorf("%s of %d bytes at %#x touches %#x, want %#x", p.name, n, addr, mem.trace, want)
	}
	return nil
}

func quickProbe(p *program) error {
	const top = 1<<64 - 3*pageBytes // the next page of the last is address 0
	for _, base := range []uint64{somewhere, top} {
		for _, off := range []uint64{0, 1, 2047, 2048, 3000, pageBytes - 1} {
			for _, n := range []uint64{1, 2, 1000, pageBytes - 1, pageBytes, pageBytes + 1, 2 * pageBytes, 2*pageBytes + 1, 3*pageBytes - off} {
				if err := probe(p, base+off, n); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func TestInterpProbes(t *testing.T) {
	for _, name := range []string{"probeRead", "probeWrite"} {
		if err := quickProbe(mustProgram(t, name)); err != nil {
			t.Error(err)
		}
	}
	if err := mustProgram(t, "Prefetch").run(&memory{}, 1<<64-1); err != nil {
		t.Error(err)
	}
}

// TestInterpFaithful runs the kernels that the CPU has both ways, and compares.
func TestInterpFaithful(t *testing.T) {
	most := 3 * pagesStep
	src, dst := newRegion(t, most+256), newRegion(t, most+256)
	pattern(src.data)
	shadow := make([]byte, most)
	compare := func(p *program, d, s, n int, real func(dst, src, n uintptr, word uint64)) {
		to, from, word := dst.addr+uintptr(d), src.addr+uintptr(s), patternFor(uint64(n))
		paint(dst.data[max(0, d-128):min(len(dst.data), d+n+128)], canary)
		paint(shadow[:n], canary)
		real(to, from, uintptr(n), word)
		mem := &memory{spans: []span{{lo: uint64(to), data: shadow[:n], write: true}}}
		args := []uint64{uint64(to), uint64(n), word}
		if !p.contract().fill {
			mem.spans = append(mem.spans, span{lo: uint64(from), data: src.data[s : s+n], read: true})
			args = []uint64{uint64(to), uint64(from), uint64(n)}
		}
		if err := p.run(mem, args...); err != nil {
			t.Fatal(err)
		}
		checkIsland(t, dst, d, shadow[:n], 128)
	}
	for _, k := range []*kernels{&kernelsAVX2, &kernelsAVX512} {
		if k == &kernelsAVX2 && !cpu.X86.HasAVX2 || k == &kernelsAVX512 && !cpu.X86.HasAVX512F {
			t.Logf("this CPU lacks %s", k.name)
			continue
		}
		for _, f := range []func(dst, src, n uintptr){k.copyPages, k.copyLinear, k.copyTemporal} {
			p := mustProgram(t, routineName(f))
			real := func(dst, src, n uintptr, _ uint64) { f(dst, src, n) }
			step := int(p.contract().step)
			for n := step; n <= max(2*step, 2048); n += step {
				for s := n / step % stride(); s < 64; s += stride() {
					compare(p, 128+s%4*64, 64+s, n, real)
				}
				compare(p, len(dst.data)-n, len(src.data)-n, n, real)
			}
			compare(p, 0, 1, most, real)
		}
		for _, f := range []func(dst, n uintptr, v uint64){k.fillStream, k.fillTemporal} {
			p := mustProgram(t, routineName(f))
			real := func(dst, _, n uintptr, word uint64) { f(dst, n, word) }
			c := p.contract()
			for n := int(c.min); n <= 1100; n += int(c.step) {
				for a := n % stride(); a < 64; a += stride() {
					compare(p, 128+a*int(c.align), 0, n, real)
				}
			}
			compare(p, 0, 0, most, real)
		}
	}
}

// TestInterpFaultsAsCPU makes the same mistakes both ways.
func TestInterpFaultsAsCPU(t *testing.T) {
	if !cpu.X86.HasAVX2 {
		t.Skip("this CPU lacks AVX2")
	}
	src, dst := newRegion(t, pageBytes), newRegion(t, pageBytes)
	faults := func(f func()) (yes bool) {
		defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
		defer func() { _, yes = recover().(runtime.Error) }()
		f()
		return
	}
	end := uintptr(pageBytes)
	for _, c := range []struct{ d, s, n uintptr }{
		{0, 0, 256}, {0, 1, 256}, {32, 0, 256}, {1, 0, 256}, {16, 0, 256}, {31, 0, 256}, {33, 3, 128},
		{end - 256, 0, 256}, {end - 256, 0, 384}, {0, end - 256, 256}, {0, end - 255, 256}, {end - 128, end - 128, 128},
	} {
		real := faults(func() { copyStreamLinearAVX2(dst.addr+c.d, src.addr+c.s, c.n) })
		mem := &memory{spans: []span{{lo: uint64(dst.addr), data: dst.data, write: true}, {lo: uint64(src.addr), data: src.data, read: true}}}
		err := mustProgram(t, "copyStreamLinearAVX2").run(mem, uint64(dst.addr+c.d), uint64(src.addr+c.s), uint64(c.n))
		if real != (err != nil) {
			t.Errorf("%+v: the CPU faults: %v, the interpreter: %v", c, real, err)
		}
	}
}

// TestInterpMutants breaks routines by hand; the error must say what is wrong.
func TestInterpMutants(t *testing.T) {
	const outside, unaligned, undefined, wrong, unknown = "outside the allowed", "not aligned", "is undefined", "wrong result", "unknown"
	r := newRig(4 * pagesStep)
	for _, c := range []struct{ routine, from, to, want string }{
		{"copyStreamPagesAVX512", "VMOVDQU64 4160(CX), Z3", "VMOVDQU64 4161(CX), Z3", wrong},
		{"copyStreamPagesAVX512", "VMOVDQU64 28736(CX), Z15", "VMOVDQU64 28737(CX), Z15", outside},
		{"copyStreamPagesAVX512", "VMOVDQU64 (CX), Z0", "VMOVDQU64 -1(CX), Z0", outside},
		{"copyStreamPagesAVX512", "VMOVNTDQ Z1, 64(AX)", "VMOVNTDQ Z1, 32(AX)", unaligned},
		{"copyStreamPagesAVX512", "VMOVNTDQ Z7, 12352(AX)", "VMOVNTDQ Z7, 12288(AX)", wrong},
		{"copyStreamPagesAVX512", "MOVQ $0x00000020, BX", "MOVQ $0x0000001f, BX", wrong},
		{"copyStreamPagesAVX512", "MOVQ $0x00000020, BX", "MOVQ $0x00000021, BX", outside},
		{"copyStreamPagesAVX512", "ADDQ $0x00007000, AX", "ADDQ $0x00007040, AX", outside},
		{"copyStreamPagesAVX512", "SFENCE", "", "no fence"},
		{"copyStreamLinearAVX512", "VMOVDQU64 (CX), Z0", "VMOVDQA64 (CX), Z0", unaligned},
		{"copyStreamLinearAVX512", "VMOVDQU64 64(CX), Z1", "", undefined},
		{"copyStreamLinearAVX512", "MOVQ n+16(FP), DX", "", undefined},
		{"copyStreamLinearAVX512", "SUBQ $0x00000080, DX", "SUBQ $0x0000007f, DX", outside},
		{"copyTemporalAVX512", "VMOVDQU64 Z3, 192(AX)", "VMOVDQU64 Z3, 193(AX)", outside},
		{"copyTemporalAVX512", "VZEROUPPER", "", "no VZEROUPPER"},
		{"copyTemporalAVX512", "RET", "", "past its end"},
		{"copyTemporalAVX512", "VMOVDQU64 128(CX), Z2", "VMOVDQU64 128(AX), Z2", outside}, // reads dst
		{"fillStreamAVX512", "VPBROADCASTQ X0, Z0", "VPBROADCASTQ X0, Y0", wrong},
		{"fillStreamAVX512", "VPBROADCASTQ X0, Z0", "", wrong},
		{"fillStreamAVX512", "JNE loop", "JAE loop", outside},
		{"fillTemporalAVX512", "JA loop", "JNE loop", outside},
		{"fillTemporalAVX512", "SUBQ $0x00000100, CX", "SUBQ $0x00000101, CX", outside},
		{"fillTemporalAVX512", "ADDQ CX, AX", "", outside},
		{"fillTemporalAVX512", "VMOVDQU64 Z0, 64(AX)", "VMOVNTDQ Z0, 64(AX)", "no fence"},
		{"fillTemporalAVX512", "VMOVDQU64 Z0, 64(AX)", "VMOVDQA64 Z0, 64(AX)", unaligned},
		{"copyStreamLinearAVX2", "VMOVNTDQ Y1, 32(AX)", "VMOVNTDQ Y1, 48(AX)", unaligned},
		{"copyTemporalAVX2", "VMOVDQU 224(CX), Y7", "VMOVDQU 225(CX), Y7", outside},
		{"probeRead", "ANDQ $-4096, AX", "ANDQ $-2048, AX", ""},
		{"probeRead", "CMPQ DX, $0x00001000", "CMPQ DX, $0x00001001", "touches"},
		{"probeRead", "CMPQ DX, $0x00001000", "CMPQ DX, $0x00000fff", outside},
		{"probeWrite", "JAE loop", "JA loop", "touches"},
		{"probeWrite", "LOCK", "", "no LOCK"},
		{"probeWrite", "ORB $0x00, (CX)", "ORB $0x01, (CX)", "touches"},
		{"copyTemporalAVX512", "VMOVDQU64 (CX), Z0", "VMOVDQU64 (CX)(DX*1), Z0", unknown},
		{"copyTemporalAVX512", "VMOVDQU64 (CX), Z0", "VMOVDQU64 (CX), K1, Z0", unknown},
		{"copyTemporalAVX512", "VMOVDQU64 (CX), Z0", "VMOVDQU64 (CX), Z16", unknown},
		{"copyTemporalAVX512", "VMOVDQU64 (CX), Z0", "VMOVDQU64 (SP), Z0", unknown},
		{"copyTemporalAVX512", "MOVQ src+8(FP), CX", "MOVQ src+8(FP), BP", unknown},
		{"copyTemporalAVX512", "JNE loop", "JLT loop", unknown},
		{"copyTemporalAVX512", "JNE loop", "JNE elsewhere", "no such label"},
	} {
		p := mustProgram(t, c.routine)
		i := slices.Index(p.source, c.from)
		if i < 0 {
			t.Errorf("%s has no %q", c.routine, c.from)
			continue
		}
		if err := r.mutant(p, i, c.to); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %q for %q gives %v, want one with %q", c.routine, c.to, c.from, err, c.want)
		}
	}
}

// mutant runs p with line i replaced, or left out if line is empty.
func (r *rig) mutant(p *program, i int, line string) error {
	source := slices.Clone(p.source)
	if source[i] = line; line == "" {
		source = slices.Delete(source, i, i+1)
	}
	bad, err := parse(source)
	switch {
	case err != nil:
		return err
	case strings.HasPrefix(p.name, "probe"):
		return quickProbe(bad)
	}
	return r.quick(bad)
}

var (
	numbers    = regexp.MustCompile(`(\$|\b)(-?(?:0x[0-9a-f]+|\d+))(\(|,|$)`)
	noNumber   = regexp.MustCompile(`( )(\(\wX\))`)
	vectorName = regexp.MustCompile(`\b([XYZ])(\d+)\b`)
	baseName   = regexp.MustCompile(`\b[ABCD]X\b`)
)

// mutations are the ways to get a line wrong.
func mutations(line string) []string {
	if strings.HasPrefix(line, "TEXT ") || strings.HasSuffix(line, ":") {
		return nil
	}
	all := []string{""}
	sub := func(re *regexp.Regexp, with func(match []string) []string) {
		for _, at := range re.FindAllStringSubmatchIndex(line, -1) {
			var groups []string
			for g := 0; g < len(at); g += 2 {
				groups = append(groups, line[at[g]:at[g+1]])
			}
			for _, s := range with(groups) {
				all = append(all, line[:at[0]]+s+line[at[1]:])
			}
		}
	}
	sub(numbers, func(m []string) (s []string) {
		v, _ := strconv.ParseInt(m[2], 0, 64)
		for _, by := range []int64{-64, -32, -8, -1, 1, 8, 32, 64, 4096} {
			if v+by >= 0 || !strings.Contains(line, "FP") {
				s = append(s, fmt.Sprintf("%s%d%s", m[1], v+by, m[3]))
			}
		}
		return s
	})
	sub(noNumber, func(m []string) []string { return []string{m[1] + "-64" + m[2], m[1] + "1" + m[2], m[1] + "64" + m[2]} })
	sub(vectorName, func(m []string) []string {
		n, _ := strconv.Atoi(m[2])
		return []string{m[1] + strconv.Itoa((n+1)%16), m[1] + strconv.Itoa((n+15)%16)}
	})
	sub(baseName, func(m []string) (s []string) {
		for _, r := range []string{"AX", "BX", "CX", "DX", "SI"} {
			if r != m[0] {
				s = append(s, r)
			}
		}
		return s
	})
	jump, label, _ := strings.Cut(line, " ")
	for _, j := range map[string][]string{"JNE": {"JEQ", "JAE"}, "JEQ": {"JNE", "JA", "JAE"}, "JA": {"JEQ", "JNE", "JAE"}}[jump] {
		all = append(all, j+" "+label)
	}
	return all
}

// harmless are the mutants that still do all that a kernel promises: they fill
// the last 256 bytes twice where n is 256, or a multiple of it.
var harmless = map[string]bool{
	"fillTemporalAVX2: JEQ last -> ":          true,
	"fillTemporalAVX2: JA loop -> JAE loop":   true,
	"fillTemporalAVX512: JEQ last -> ":        true,
	"fillTemporalAVX512: JA loop -> JAE loop": true,
}

// TestInterpAllMutants breaks each line of each kernel in every way of
// mutations, so that what passes the tests of this file has no line to spare.
func TestInterpAllMutants(t *testing.T) {
	r := newRig(4 * pagesStep)
	total := 0
	for name, p := range programs() {
		if p.contract().min == 0 || testing.Short() && strings.HasSuffix(name, "AVX2") {
			continue
		}
		if err := r.quick(p); err != nil {
			t.Fatal(err)
		}
		for i, line := range p.source {
			for _, m := range mutations(line) {
				total++
				what := fmt.Sprintf("%s: %s -> %s", name, line, m)
				switch err := r.mutant(p, i, m); {
				case err == nil && !harmless[what]:
					t.Errorf("not caught: %s", what)
				case err != nil && strings.Contains(err.Error(), "unknown"):
					t.Errorf("mutant is none: %s: %v", what, err)
				}
			}
		}
	}
	t.Logf("%d mutants", total)
}
