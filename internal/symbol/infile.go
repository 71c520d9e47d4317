package symbol

import (
	"encoding/hex"

	"ropeway/internal/finding"
)

// Locate returns the executable or library that contains an address of this process, the offset in it, and its build
// ID in hexadecimal digits, or "". The file is "" if none contains the address. Another process can pass the results
// to InBuild.
func (t *Table) Locate(pc uintptr) (file string, offset uint64, build string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	place := t.locate(uint64(pc))
	if place == nil || !place.file {
		return "", 0, ""
	}
	return place.path, uint64(pc) - place.start + place.offset, t.module(place.path).id()
}

// InBuild is InFile if the file still has that build ID, else nil.
func (t *Table) InBuild(path, build string, offset uint64) []finding.Frame {
	t.mu.Lock()
	id := t.module(path).id()
	t.mu.Unlock()
	if id != build {
		return nil
	}
	frames := t.InFile(path, offset)
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range frames {
		frames[i].Inside, _ = t.module(path).address(max(offset, 1) - 1)
	}
	return frames
}

// id returns the build ID of the file in hexadecimal digits; "" if it has none or does not exist.
func (m *module) id() string {
	if m.build != nil {
		return *m.build
	}
	m.build = new(string)
	file, err := openELF(m.path)
	if err != nil {
		return ""
	}
	defer file.Close()
	*m.build = hex.EncodeToString(identify(file))
	return *m.build
}

// identify is buildID for a file that may be damaged.
func identify(file *elfFile) (id []byte) {
	defer func() {
		if recover() != nil {
			id = nil
		}
	}()
	return buildID(file)
}

// InFile returns the functions at a return address of another process, innermost first, given the mapped file and the
// offset of the address in it. There is at least one, which may be empty. The caller must not change the result.
func (t *Table) InFile(path string, offset uint64) []finding.Frame {
	t.mu.Lock()
	defer t.mu.Unlock()
	if offset > 0 {
		offset-- // see find
	}
	frames := t.module(path).frames(offset)
	t.trim()
	if len(frames) == 0 {
		frames = []finding.Frame{{}}
	}
	return frames
}
