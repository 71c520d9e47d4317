package symbol

import (
	"encoding/hex"

	"ropeway/internal/finding"
)

// Locate returns the file with code that an address of this process is in, the place in it, and the build that its
// linker named it, in hexadecimal digits, or "". The file is "" where there is none. Another process can ask InBuild
// for the rest.
func (t *Table) Locate(pc uintptr) (file string, offset uint64, build string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	place := t.locate(uint64(pc))
	if place == nil || !place.file {
		return "", 0, ""
	}
	return place.path, uint64(pc) - place.start + place.offset, t.module(place.path).id()
}

// InBuild is InFile if the file is still of that build; nil if it is not.
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

// id is what the linker named this build of the file, in hexadecimal digits; "" if it gave none or there is no such
// file.
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

// identify is buildID of a file that may be damaged in any way.
func identify(file *elfFile) (id []byte) {
	defer func() {
		if recover() != nil {
			id = nil
		}
	}()
	return buildID(file)
}

// InFile returns the functions that a return address of another process is in, innermost first, by the file that is
// mapped there and the address's offset in it. There is always one at least, which may be empty. The result must not be
// changed.
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
