package symbol

import (
	"bytes"
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"ropeway/internal/dl"
	"ropeway/internal/finding"
	"ropeway/internal/testenv"
)

// base is where the tests pretend that a file is mapped.
const base = 0x7f0000000000

// pretend makes a table for which all of a file is mapped at base.
func pretend(t testing.TB, path string) *Table {
	t.Helper()
	table := New()
	table.maps = filepath.Join(t.TempDir(), "maps")
	table.debug = []string{filepath.Join(t.TempDir(), "debug")}
	line := fmt.Sprintf("%x-%x r-xp 00000000 08:01 42    %s\n", base, base+1<<30, path)
	testenv.OK(t, os.WriteFile(table.maps, []byte(line), 0o666))
	return table
}

// build compiles a file of testdata to a shared object.
func build(t testing.TB, source string, flags ...string) string {
	t.Helper()
	compiler := map[string]string{".c": "gcc", ".cc": "g++"}[filepath.Ext(source)]
	testenv.Need(t, compiler)
	out := filepath.Join(t.TempDir(), "lib"+strings.TrimSuffix(source, filepath.Ext(source))+".so")
	args := append(flags, "-shared", "-fPIC", "-Wl,--build-id", "-o", out, source)
	do(t, "testdata", compiler, args...)
	return out
}

func do(t testing.TB, dir, tool string, args ...string) []byte {
	t.Helper()
	testenv.Need(t, tool)
	cmd := exec.Command(tool, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
	return out
}

// code lists the addresses of code that comes from the source, as offsets in the file and as the file's own addresses.
func code(t testing.TB, path string) (offsets, addresses []uint64) {
	t.Helper()
	f, err := elf.Open(path)
	testenv.OK(t, err)
	defer f.Close()
	symbols, err := f.Symbols()
	testenv.OK(t, err)
	text := f.Section(".text")
	ours := regexp.MustCompile(`entry|outer|hidden|ropes`)
	for _, s := range symbols {
		if elf.ST_TYPE(s.Info) != elf.STT_FUNC || !ours.MatchString(s.Name) {
			continue
		}
		if s.Value < text.Addr || s.Value >= text.Addr+text.Size {
			continue
		}
		for a := s.Value; a < s.Value+s.Size; a++ {
			addresses = append(addresses, a)
			offsets = append(offsets, a-text.Addr+text.Offset)
		}
	}
	if len(addresses) < 50 {
		t.Fatalf("only %d bytes of code in %s", len(addresses), path)
	}
	return offsets, addresses
}

// addr2line asks binutils for the frames of addresses.
func addr2line(t testing.TB, path string, addresses []uint64) [][]string {
	t.Helper()
	testenv.Need(t, "addr2line")
	var in bytes.Buffer
	for _, a := range addresses {
		fmt.Fprintf(&in, "%#x\n", a)
	}
	cmd := exec.Command("addr2line", "-afi", "-e", path)
	cmd.Stdin = &in
	out, err := cmd.Output()
	testenv.OK(t, err)
	var all [][]string
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	for i := 0; i < len(lines); {
		if strings.HasPrefix(lines[i], "0x") {
			all = append(all, nil)
			i++
			continue
		}
		place, _, _ := strings.Cut(lines[i+1], " (discriminator")
		all[len(all)-1] = append(all[len(all)-1], demangled(lines[i])+" "+place)
		i += 2
	}
	return all
}

// written writes frames as addr2line does.
func written(frames []finding.Frame) (all []string) {
	for _, f := range frames {
		line := strconv.Itoa(f.Line)
		if f.Line == 0 {
			line = "?"
		}
		file := f.File
		if file == "" {
			file = "??"
		}
		all = append(all, f.Function+" "+file+":"+line)
	}
	return all
}

// same compares a frame with that of addr2line, which does not look for the name space where the debug information has
// none.
func same(got, want string) bool {
	plain, _, _ := strings.Cut(want, "<")
	name, place, _ := strings.Cut(want, " /")
	return got == want || !strings.Contains(name, "::") && strings.Contains(got, "::"+plain) &&
		strings.HasSuffix(got, place)
}

// variants are ways to compile that give different debug information.
var variants = [][]string{
	{"-g", "-O0"}, {"-g", "-O2"}, {"-gdwarf-2", "-O2"}, {"-gdwarf-3", "-O2"}, {"-gdwarf-4", "-O2"},
	{"-gdwarf-5", "-O2"},
	{"-gdwarf-5", "-O2", "-gz=zlib"}, {"-gdwarf-4", "-O2", "-gz=zlib-gnu"}, {"-gdwarf-5", "-O2", "-gdwarf64"},
	{"-gdwarf-5", "-O2", "-ffunction-sections", "-Wl,--gc-sections"}, {"-gdwarf-4", "-O3", "-flto"}, {"-g1", "-O2"},
}

// Every byte of the code has the functions, files and lines that addr2line prints.
func TestAgreesWithAddr2line(t *testing.T) {
	for _, source := range []string{"small.c", "small.cc"} {
		for _, flags := range variants {
			t.Run(source+strings.Join(flags, ""), func(t *testing.T) {
				t.Parallel()
				path := build(t, source, flags...)
				offsets, addresses := code(t, path)
				like := path
				if i := slices.Index(flags, "-gdwarf64"); i >= 0 {
					// addr2line does not read it: ask for the same code without
					like = build(t, source, slices.Delete(slices.Clone(flags), i, i+1)...)
				}
				want := addr2line(t, like, addresses)
				table := pretend(t, path)
				wrong, inlined := 0, 0
				for i, offset := range offsets {
					frames := table.At(uintptr(base + offset))
					if !slices.EqualFunc(written(frames), want[i], same) {
						if wrong++; wrong < 6 {
							t.Errorf("%#x:\n got %q\nwant %q", addresses[i], written(frames), want[i])
						}
					}
					if len(frames) > 1 {
						inlined++
					}
				}
				if wrong > 0 {
					t.Errorf("%d of %d addresses", wrong, len(offsets))
				}
				if inlined == 0 && !slices.Contains(flags, "-O0") {
					t.Error("nothing was inlined")
				}
			})
		}
	}
}

// A return address is of the call before it: at the first byte after a function's end it is still that function.
func TestReturnAddress(t *testing.T) {
	path := build(t, "small.c", "-g", "-O0")
	table := pretend(t, path)
	start, size := find(t, path, "hidden")
	last := table.Frames(uintptr(base + start + size))
	if last[0].Function != "hidden" || last[0].Module != "libsmall.so" || last[0].Address != base+start+size {
		t.Errorf("after the end: %+v", last)
	}
	if first := table.Frames(uintptr(base + start)); first[0].Function == "hidden" {
		t.Errorf("the first byte returns to what is before: %+v", first)
	}
	if first := table.At(uintptr(base + start)); first[0].Function != "hidden" {
		t.Errorf("the first byte itself: %+v", first)
	}
}

// find returns the offset and size of a function in a file.
func find(t testing.TB, path, name string) (offset, size uint64) {
	t.Helper()
	f, err := elf.Open(path)
	testenv.OK(t, err)
	defer f.Close()
	symbols, _ := f.Symbols()
	dynamic, _ := f.DynamicSymbols()
	for _, s := range append(symbols, dynamic...) {
		if s.Name == name && s.Size > 0 {
			section := f.Sections[s.Section]
			return s.Value - section.Addr + section.Offset, s.Size
		}
	}
	t.Fatalf("no %s in %s", name, path)
	return 0, 0
}

// Without debug information the symbol tables name functions; without those, the loader's table names the public ones.
func TestStripped(t *testing.T) {
	path := build(t, "small.c", "-g", "-O2")
	hidden, _ := find(t, path, "hidden")
	entry, _ := find(t, path, "entry")
	for _, tt := range []struct{ strip, hidden, entry string }{
		{"--strip-debug", "hidden", "entry"},
		{"--strip-all", "", "entry"},
	} {
		stripped := filepath.Join(t.TempDir(), "libsmall.so")
		do(t, ".", "objcopy", tt.strip, path, stripped)
		table := pretend(t, stripped)
		if got := table.At(uintptr(base + entry + 3)); len(got) != 1 || got[0].Function != tt.entry ||
			got[0].Line != 0 {
			t.Errorf("%s: entry is %+v", tt.strip, got)
		}
		if got := table.At(uintptr(base + hidden + 3)); len(got) != 1 || got[0].Function != tt.hidden ||
			got[0].Module != "libsmall.so" {
			t.Errorf("%s: hidden is %+v", tt.strip, got)
		}
	}
}

// A separate debug file is found by the build id or by the link, wherever it may be, and only if it is the right one.
func TestSeparateDebugFile(t *testing.T) {
	path := build(t, "small.c", "-g", "-O2")
	hidden, _ := find(t, path, "hidden")
	file, err := openELF(path)
	testenv.OK(t, err)
	id := fmt.Sprintf("%x", buildID(file))
	file.Close()
	if len(id) != 40 {
		t.Fatalf("build id %q", id)
	}
	for _, tt := range []struct {
		name, place string // from the directory of the library; "debug/" is where debug files are
		damage      bool
		found       bool
	}{
		{"by id", "debug/.build-id/" + id[:2] + "/" + id[2:] + ".debug", false, true},
		{"beside", "lib/libsmall.debug", false, true},
		{"below", "lib/.debug/libsmall.debug", false, true},
		{"in the tree", "debug/DIR/libsmall.debug", false, true},
		{"changed", "lib/libsmall.debug", true, false},
		{"missing", "elsewhere/libsmall.debug", false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			lib := filepath.Join(root, "lib")
			full := filepath.Join(root, strings.Replace(tt.place, "DIR", lib, 1))
			for _, dir := range []string{lib, filepath.Dir(full)} {
				testenv.OK(t, os.MkdirAll(dir, 0o777))
			}
			separate := filepath.Join(root, "libsmall.debug")
			stripped := filepath.Join(lib, "libsmall.so")
			do(t, ".", "objcopy", "--only-keep-debug", path, separate)
			do(t, ".", "objcopy", "--strip-all", "--add-gnu-debuglink="+separate, path, stripped)
			if tt.damage {
				appendByte(t, separate)
			}
			testenv.OK(t, os.Rename(separate, full))
			table := pretend(t, stripped)
			table.debug = []string{filepath.Join(root, "debug")}
			got := table.At(uintptr(base + hidden + 3))
			if found := got[0].Function == "hidden" && strings.HasSuffix(got[0].File, "small.c") &&
				got[0].Line > 0; found != tt.found {
				t.Errorf("%+v", got)
			}
		})
	}
}

func appendByte(t testing.TB, path string) {
	t.Helper()
	text, err := os.ReadFile(path)
	testenv.OK(t, err)
	testenv.OK(t, os.WriteFile(path, append(text, 0), 0o666))
}

// What is known of addresses that no file explains is the address, and the module if there was one.
func TestUnknown(t *testing.T) {
	table := New()
	table.maps = filepath.Join(t.TempDir(), "maps")
	maps := "10000-20000 rwxp 00000000 00:00 0 \n" +
		"20000-30000 r-xp 00000000 08:01 42    /lib/libgone.so (deleted)\n" +
		"30000-40000 r-xp 00000000 00:00 0     [vdso]\n" +
		"40000-50000 r-xp 00000000 08:01 42    /nowhere/at all/libx y.so\n" +
		"50000-60000 r-xp 00000000 08:01 42    /dev/zero\n" +
		"nonsense\n7-3 r-xp 0 0 0 /x\n"
	testenv.OK(t, os.WriteFile(table.maps, []byte(maps), 0o666))
	for pc, module := range map[uintptr]string{0: "", 5: "", 0x10008: "", 0x20008: "libgone.so", 0x30008: "[vdso]",
		0x40008: "libx y.so",
		0x50008: "zero", 0x60008: "", ^uintptr(0): ""} {
		want := []finding.Frame{{Address: uint64(pc), Module: module}}
		if got := table.Frames(pc); !slices.Equal(got, want) {
			t.Errorf("%#x: %+v, want %+v", pc, got, want)
		}
	}
	table.maps = "/nowhere/maps"
	if got := table.At(0x99999); len(got) != 1 || got[0].Address != 0x99999 {
		t.Errorf("without a list of mappings: %+v", got)
	}
}

// In this process, too, a library is found, although it was loaded after the table first looked.
func TestThisProcess(t *testing.T) {
	path := build(t, "small.c", "-g", "-O0")
	table := New()
	pc, _, _, _ := runtime.Caller(0)
	if f := table.Frames(pc)[0]; f.Module != filepath.Base(os.Args[0]) {
		t.Errorf("this function: %+v", f)
	}
	library, err := dl.Open(path)
	if err != nil {
		t.Skip(err)
	}
	address, err := library.Symbol("entry_address")
	testenv.OK(t, err)
	if f := table.At(dl.Call(address))[0]; f.Function != "entry" || filepath.Base(f.File) != "small.c" ||
		f.Module != "libsmall.so" {
		t.Errorf("%+v", f)
	}
}

// Many goroutines ask one table, also for more than it remembers.
func TestConcurrent(t *testing.T) {
	path := build(t, "small.cc", "-g", "-O2")
	offsets, _ := code(t, path)
	table := pretend(t, path)
	want := table.At(uintptr(base + offsets[0]))
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for i := range 2 * mostFound {
				table.Frames(uintptr(base + 1<<20 + i))
			}
			if got := table.At(uintptr(base + offsets[0])); !slices.Equal(got, want) {
				t.Errorf("%+v, want %+v", got, want)
			}
		})
	}
	group.Wait()
	if len(table.found) > mostFound {
		t.Errorf("%d found are kept", len(table.found))
	}
}

// Of many modules only the last ones stay in memory.
func TestMemoryIsBounded(t *testing.T) {
	table := New()
	for i := range 10 {
		table.module(strconv.Itoa(i)).bytes = mostBytes / 4
		table.trim()
	}
	for i := range 10 {
		if kept := table.modules[strconv.Itoa(i)] != nil; kept != (i >= 6) {
			t.Errorf("module %d: kept %v", i, kept)
		}
	}
}
