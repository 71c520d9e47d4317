package symbol

import "ropeway/internal/finding"

// InFile returns the functions that a return address of another process is in, innermost first, by the file that is mapped
// there and the address's offset in it. There is always one at least, which may be empty. The result must not be changed.
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
