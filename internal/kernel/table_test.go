package kernel

import (
	"slices"
	"strings"
	"testing"

	"ropeway/internal/testenv"
)

// meta data of a symbol, as C source.
func record(symbol, bytes string) string {
	return "__attribute__((section(\".ascend.meta." + symbol + "\"), used)) static const unsigned char m_" + symbol +
		"[] = {" + bytes + "};\n"
}

var pairs = Options{Default: Cube, Pairs: true}

func read(t *testing.T, source string, o Options, flags ...string) *Table {
	t.Helper()
	table, err := Read(testenv.SharedObject(t, source, flags...), o)
	testenv.OK(t, err)
	return table
}

// TestKernelsOfObject: exported functions are kernels by their names, hidden, local and undefined ones are not; a
// stripped object has the same ones. Global variables are found with their sizes.
func TestKernelsOfObject(t *testing.T) {
	const source = `
extern int puts(const char *);
int table[6] = {1};
static int count;
void add_7(void) { count++; puts("x"); }
void plain(void) {}
__attribute__((visibility("hidden"))) void hidden(void) {}
static __attribute__((used)) void local(void) {}
`
	for _, flags := range [][]string{nil, {"-s"}} {
		table := read(t, source, pairs, flags...)
		var names []string
		for _, k := range table.Kernels() {
			names = append(names, k.Name)
		}
		if want := []string{"add_7", "plain"}; !slices.Equal(names, want) {
			t.Errorf("flags %v: kernels %v, want %v", flags, names, want)
		}
		if k := table.FindNumber(7); k == nil || k.Name != "add_7" || k.Type != Cube || k.Takes != 128 || k.HasParams {
			t.Errorf("number 7 is %+v", k)
		}
		if k := table.FindNumber(0); k == nil || k.Name != "plain" {
			t.Errorf("number 0 is %+v", k)
		}
		if v, ok := table.Global("table"); !ok || v.Size != 24 {
			t.Errorf("variable: %+v, %v", v, ok)
		}
		if _, ok := table.Global("count"); ok {
			t.Error("a local variable is found")
		}
		if table.Format != Native || table.Loaded == 0 {
			t.Errorf("%v, %d bytes", table.Format, table.Loaded)
		}
	}
}

// TestHalves: a cube half and a vector half are one kernel, in either order.
func TestHalves(t *testing.T) {
	table := read(t, `
void x_1_mix_aic(void) {} void x_1_mix_aiv(void) {}
void only_mix_aiv(void) {}
`, pairs)
	x := table.Find("x_1")
	if x == nil || x.Type != Mix || x.Code[CubeHalf].Symbol != "x_1_mix_aic" ||
		x.Code[VectorHalf].Symbol != "x_1_mix_aiv" || !x.Halves || !x.Sync {
		t.Errorf("x_1 is %+v", x)
	}
	only := table.Find("only")
	if only == nil || only.Type != Vector || only.Code[CubeHalf].Symbol != "" ||
		only.Code[VectorHalf].Symbol != "only_mix_aiv" {
		t.Errorf("only is %+v", only)
	}
	if table.Find("x_1_mix_aic") != nil {
		t.Error("a half is found by its own name")
	}
	if got := read(t, "void x_mix_aic(void) {} void x_mix_aiv(void) {}", Options{}).Find("x"); got == nil ||
		got.Type != AICore {
		t.Errorf("without pairs of cores: %+v", got)
	}
}

// TestCubin: kernels of a cubin have their whole names and no halves, can be launched with threads, and get parameters
// from a driver that knows them; those of a fatbin cannot be read.
func TestCubin(t *testing.T) {
	image := testenv.SharedObject(t,
		"void x_1_mix_aic(void) {} void x_1_mix_aiv(void) {} static void local(void) {} int v;")
	image[18], image[19] = machineCUDA, 0
	table, err := Read(image, pairs)
	testenv.OK(t, err)
	for _, name := range []string{"x_1_mix_aic", "x_1_mix_aiv"} {
		if k := table.Find(name); k == nil || k.Halves || k.Sync || k.Vector != Both || k.HasParams {
			t.Errorf("%s is %+v", name, k)
		}
	}
	if table.Find("x_1") != nil || table.Find("local") != nil || !table.GPU() || table.Open {
		t.Errorf("%+v", table)
	}
	k := table.Find("x_1_mix_aic").WithParams([]Param{{0, 8}, {8, 4}})
	if !k.HasParams || k.ArgsSize != 12 || table.Find("x_1_mix_aic").HasParams {
		t.Errorf("with parameters: %+v", k)
	}
	fat, err := Read([]byte("\x50\xed\x55\xba...."), pairs)
	if err != nil || !fat.Open || !fat.GPU() || fat.Find("any") != nil || fat.Unlisted("any", pairs).Name != "any" {
		t.Errorf("a fatbin: %+v, %v", fat, err)
	}
}

// TestMergeOrder: the order is that of the symbols, and only a half of another kind joins a kernel.
func TestMergeOrder(t *testing.T) {
	for _, c := range []struct {
		symbols string
		ok      bool
		cube    string
	}{
		{"y y_mix_aiv", true, "y"}, {"y y_mix_aic", true, "y_mix_aic"}, {"y_mix_aiv y", false,
			""}, {"y_mix_aic y_mix_aic", false, ""},
		{"y_mix_aiv y_mix_aic", true, "y_mix_aic"}, {"y y", false, ""}, {"y y_mix_aic y_mix_aiv", false, ""},
	} {
		table := &Table{byName: map[string]*Kernel{}}
		var err error
		for _, s := range strings.Fields(c.symbols) {
			if e := table.add(s, 8, meta{}, pairs); e != nil {
				err = e
			}
		}
		if (err == nil) != c.ok {
			t.Errorf("%s: %v", c.symbols, err)
		}
		if c.ok && table.Find("y").Code[CubeHalf].Symbol != c.cube {
			t.Errorf("%s: cube half %q, want %q", c.symbols, table.Find("y").Code[CubeHalf].Symbol, c.cube)
		}
	}
}

// TestMeta: type, ratio, number, parameters and scheduling come from the section of the symbol.
func TestMeta(t *testing.T) {
	source := record("k_mix_aic", "1,0,4,0,4,0,0,0, 3,0,4,0,1,0,2,0, 14,0,12,0,0,0,0,0,99,0,0,0,0,0,0,0,"+
		"16,0,12,0,2,0,0,0,12,0,0,0,0,0,0,0,"+
		"17,0,36,0,0,0,0,0,0,0,0,0,0,0,0,0,8,0,0,0,8,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,"+
		"17,0,36,0,1,0,0,0,1,0,0,0,8,0,0,0,4,0,0,0,4,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,"+
		"18,0,4,0,1,0,0,0") + "void k_mix_aic(void) {}\n" +
		record("v_5", "1,0,4,0,3,0,0,0, 14,0,12,0,128,0,0,0,0,0,0,0,0,0,0,0") + "void v_5(void) {}\n" +
		record("s", "12,0,4,0,3,0,0,0, 7,0,4,0,0,1,0,0, 4,0,20,0, 0,5,0,1,0,0,0,0,0,0,0,0, 0,1,0,0,0,0,0,0") +
		"void s(void) {}\n"
	table := read(t, source, pairs)
	k := table.FindNumber(99)
	if k == nil || k.Type != Mix || k.Ratio != [2]uint16{1, 2} || !k.Batch || !k.HasParams || k.ArgsSize != 12 {
		t.Fatalf("k is %+v", k)
	}
	if want := []Param{{0, 8}, {8, 4}}; !slices.Equal(k.Params, want) {
		t.Errorf("parameters %v, want %v", k.Params, want)
	}
	if k.Takes != 0 {
		t.Errorf("a kernel without a list of arguments takes %d", k.Takes)
	}
	if v := table.Find("v_5"); v == nil || v.Type != Vector || table.FindNumber(5) != nil {
		t.Errorf("v_5 is %+v, and by number %+v", v, table.FindNumber(5))
	}
	if s := table.Find("s"); s.Vector != SIMT || s.UB != 256 || s.Takes != 2 {
		t.Errorf("s is %+v", s)
	}
}

// TestBadMeta: contradictions fail the load.
func TestBadMeta(t *testing.T) {
	for name, bytes := range map[string]string{
		"ratio": "3,0,4,0,3,0,2,0", "mode": "18,0,4,0,2,0,0,0", "mix": "1,0,4,0,4,0,0,0",
		"count":  "16,0,12,0,2,0,0,0,0,0,0,0,0,0,0,0",
		"number": "14,0,12,0,1,0,0,0,0,0,0,0,0,0,0,0", "short": "1,0,2,0,1,0",
		"long": "1,0,9,0,1,0", "stack": "8,0,4,0,0,0,1,0",
	} {
		if _, err := Read(testenv.SharedObject(t, record("k", bytes)+"void k(void) {}"), pairs); err == nil ||
			!strings.Contains(err.Error(), "meta data of k") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestDescribe: kernels of a shared object have the meta data of the binary that it stands in for, unless they have
// their own.
func TestDescribe(t *testing.T) {
	half := "1,0,4,0,4,0,0,0, 3,0,4,0,1,0,2,0, 14,0,12,0,0,0,0,0,99,0,0,0,0,0,0,0"
	npu := read(t, record("k_mix_aic", half)+record("k_mix_aiv", half)+
		"void k_mix_aic(void) {} void k_mix_aiv(void) {}\n"+
		record("v_5", "1,0,4,0,3,0,0,0, 14,0,12,0,128,0,0,0,0,0,0,0,0,0,0,0, 12,0,4,0,3,0,0,0, "+
			"16,0,12,0,1,0,0,0,4,0,0,0,0,0,0,0, "+
			"17,0,36,0,0,0,0,0,0,0,0,0,0,0,0,0,4,0,0,0,4,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0")+"void v_5(void) {}\n"+
		record("own", "14,0,12,0,0,0,0,0,7,0,0,0,0,0,0,0")+"void own(void) {}\n"+
		"void plain_3(void) {}\n", pairs)
	for name, halves := range map[string]string{
		"whole": "void k(void) {}", "halves": "void k_mix_aic(void) {} void k_mix_aiv(void) {}",
	} {
		table := read(t, halves+"void v_5(void) {} void plain_3(void) {} void more_8(void) {}\n"+
			record("own", "14,0,12,0,0,0,0,0,70,0,0,0,0,0,0,0")+"void own(void) {}\n", pairs)
		table.Describe(npu)
		k := table.FindNumber(99)
		if k == nil || k.Type != Mix || k.Ratio != [2]uint16{1, 2} || !k.Sync || !k.Halves {
			t.Fatalf("%s: k is %+v", name, k)
		}
		want := [2]Code{{Symbol: "k"}}
		if name == "halves" {
			want = [2]Code{{Symbol: "k_mix_aic"}, {Symbol: "k_mix_aiv"}}
		}
		for i, c := range want {
			if k.Code[i].Symbol != c.Symbol {
				t.Errorf("%s: half %d of k is %q", name, i, k.Code[i].Symbol)
			}
		}
		v := table.Find("v_5")
		if v.Type != Vector || v.Vector != SIMT || len(v.Params) != 1 || table.FindNumber(5) != nil ||
			v.Code[VectorHalf].Symbol != "v_5" || v.Code[CubeHalf].Symbol != "" {
			t.Errorf("%s: v_5 is %+v", name, v)
		}
		if table.FindNumber(70) != table.Find("own") || table.FindNumber(7) != nil {
			t.Errorf("%s: own has another number than its own", name)
		}
		if table.FindNumber(3) == nil || table.FindNumber(8) == nil {
			t.Errorf("%s: kernels without meta data on either side have lost their numbers", name)
		}
	}
}

// TestNumbers: the digits after the last _, else 0.
func TestNumbers(t *testing.T) {
	for name, want := range map[string]uint64{
		"add_12": 12, "add_1_2": 2, "add": 0, "12": 12, "add_1x": 0, "add_": 0,
		"a_18446744073709551615": 1<<64 - 1, "a_18446744073709551616": 0,
	} {
		if got := numberOf(name); got != want {
			t.Errorf("%s: %d, want %d", name, got, want)
		}
	}
}

// TestFormats: what an image is shows in its first bytes.
func TestFormats(t *testing.T) {
	elf := func(kind, machine byte, high byte) []byte {
		b := make([]byte, 64)
		copy(b, "\x7fELF\x02\x01")
		b[16], b[18], b[19] = kind, machine, high
		return b
	}
	for name, c := range map[string]struct {
		image []byte
		want  Format
	}{
		"npu":    {elf(2, 0x29, 0x10), NPU},
		"old":    {elf(2, 244, 0), NPU},
		"cubin":  {elf(2, 190, 0), Cubin},
		"object": {elf(1, byte(machineHere()), 0), Object},
		"native": {elf(3, byte(machineHere()), 0), Native},
		"other":  {elf(3, 2, 0), Foreign},
		"fatbin": {[]byte("\x50\xed\x55\xba...."), Fatbin},
		"ptx":    {[]byte("// made by a compiler\n\n.version 7.0\n.target sm_70"), PTX},
		"text":   {[]byte("hello"), Unknown},
		"empty":  {nil, Unknown},
	} {
		if got := FormatOf(c.image); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
		if c.want != Native && Advice(c.want, "soft", func(f Format) bool { return f == Native }, "") == "" {
			t.Errorf("%s has no advice", name)
		}
	}
}

// TestPTX: entries and their parameters, with alignments.
func TestPTX(t *testing.T) {
	table, err := Read([]byte(`.version 7.0
.target sm_70
// .entry no(
.visible .entry add_3(
	.param .u64 add_param_0,
	.param .f32 add_param_1,
	.param .u64 .ptr .global .align 16 add_param_2,
	.param .align 8 .b8 add_param_3[24]
)
{ ret; }
.entry none() { ret; }
`), Options{Default: Vector})
	testenv.OK(t, err)
	k := table.FindNumber(3)
	if k == nil || !slices.Equal(k.Params, []Param{{0, 8}, {8, 4}, {16, 8}, {24, 24}}) || k.ArgsSize != 48 {
		t.Errorf("add_3 is %+v", k)
	}
	if n := table.Find("none"); n == nil || !n.HasParams || len(n.Params) != 0 {
		t.Errorf("none is %+v", n)
	}
	if table.Find("no") != nil {
		t.Error("an entry in a comment is found")
	}
}

// FuzzRead: no bytes make Read fail otherwise than with an error.
func FuzzRead(f *testing.F) {
	f.Add([]byte("\x7fELF"))
	f.Add([]byte(".version 7\n.entry a(.param .u64 x)"))
	f.Fuzz(func(t *testing.T, image []byte) {
		if table, err := Read(image, pairs); err == nil && table == nil {
			t.Error("neither a table nor an error")
		}
	})
}

// TestDamaged: an object with any byte changed, or cut short, is read or refused.
func TestDamaged(t *testing.T) {
	image := testenv.SharedObject(t, record("k", "1,0,4,0,2,0,0,0")+"void k(void) {} int v;")
	for n := 0; n < len(image); n += 97 {
		Read(image[:n], pairs) //nolint:errcheck // must return
	}
	damaged := slices.Clone(image)
	for i := 0; i < len(image); i += 7 {
		damaged[i] ^= 0xFF
		Read(damaged, pairs) //nolint:errcheck // must return
		damaged[i] ^= 0xFF
	}
	if _, err := Read(damaged, pairs); err != nil {
		t.Errorf("what was mended is refused: %v", err)
	}
}
