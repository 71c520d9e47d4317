package symbol

import "testing"

// TestInFile proves that an address given by file and offset has the name and line it has where the file is mapped.
func TestInFile(t *testing.T) {
	path := build(t, "small.c", "-g", "-O0")
	table := pretend(t, path)
	start, size := find(t, path, "hidden")
	want := table.Frames(uintptr(base + start + size))
	got := table.InFile(path, start+size)
	if len(got) != len(want) || got[0].Function != "hidden" || got[0].File != want[0].File ||
		got[0].Line != want[0].Line {
		t.Errorf("got %+v, want %+v", got, want)
	}
	for _, wrong := range []string{"", "/", "/no/such/file"} {
		if got := table.InFile(wrong, 100); len(got) != 1 || got[0].Function != "" {
			t.Errorf("in %q: %+v", wrong, got)
		}
	}
}

// TestLocate: where an address of this process is can be asked again later, by file and build; another build of the
// file has no result.
func TestLocate(t *testing.T) {
	path := build(t, "small.c", "-g", "-O0")
	table := pretend(t, path)
	start, size := find(t, path, "hidden")
	want := table.Frames(uintptr(base + start + size))
	file, offset, id := table.Locate(uintptr(base + start + size))
	if file != path || offset != start+size || len(id) < 16 {
		t.Fatalf("%s at %#x, build %q", file, offset, id)
	}
	later := New()
	if got := later.InBuild(file, id, offset); len(got) != len(want) || got[0].Line != want[0].Line ||
		got[0].Function != "hidden" {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := later.InBuild(file, "00"+id[2:], offset); got != nil {
		t.Errorf("another build: %+v", got)
	}
	if file, _, _ := table.Locate(16); file != "" {
		t.Errorf("no code is in %q", file)
	}
}
