package symbol

import "testing"

// TestInFile proves that an address given by file and offset has the name and line it has where the file is mapped.
func TestInFile(t *testing.T) {
	path := build(t, "small.c", "-g", "-O0")
	table := pretend(t, path)
	start, size := find(t, path, "hidden")
	want := table.Frames(uintptr(base + start + size))
	got := table.InFile(path, start+size)
	if len(got) != len(want) || got[0].Function != "hidden" || got[0].File != want[0].File || got[0].Line != want[0].Line {
		t.Errorf("got %+v, want %+v", got, want)
	}
	for _, wrong := range []string{"", "/", "/no/such/file"} {
		if got := table.InFile(wrong, 100); len(got) != 1 || got[0].Function != "" {
			t.Errorf("in %q: %+v", wrong, got)
		}
	}
}
