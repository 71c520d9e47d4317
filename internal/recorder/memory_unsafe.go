package recorder

import "unsafe"

// wordsOf returns mapped memory, which begins at a page, as words.
func wordsOf(m []byte) []uint64 {
	return unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(m))), len(m)/8)
}

// lineOf returns the words as a record.
func lineOf(words []uint64) *line { return (*line)(unsafe.Pointer(unsafe.SliceData(words))) }
