package kernel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
)

// Kinds of sections and symbols of ELF files.
const (
	secSymbols = 2
	secDynamic = 11
	secNoBits  = 8
	secAlloc   = 2

	symObject = 1
	symFunc   = 2
	symGlobal = 1
	symHidden = 2
)

// symbol is a symbol that a binary defines or refers to.
type symbol struct {
	name    string
	kind    uint8 // low four bits of st_info
	binding uint8 // high four bits
	hidden  bool
	defined bool
	value   uint64
	size    uint64
}

// section is a section of a binary.
type section struct {
	name         string
	kind, link   uint32
	flags        uint64
	offset, size uint64
	nameAt       uint32
}

// file is the parsed part of an ELF file.
type file struct {
	machine  uint16
	sections []section
	symbols  []symbol
	image    []byte
	stripped bool // the symbols are those of .dynsym
}

var errELF = errors.New("no ELF file that can be read")

func badELF(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errELF, fmt.Sprintf(format, args...))
}

// readELF reads sections and symbols. It checks each offset against the size of the image.
func readELF(image []byte) (*file, error) {
	const head, secHead = 64, 64
	le := binary.LittleEndian
	if len(image) < head {
		return nil, badELF("%d bytes are fewer than its header has", len(image))
	}
	if image[4] != 2 || image[5] == 2 {
		return nil, badELF("it has not 64 bits, or is big endian")
	}
	f := &file{machine: le.Uint16(image[18:]), image: image}
	at, size := le.Uint64(image[40:]), le.Uint16(image[58:])
	n, names := uint64(le.Uint16(image[60:])), uint64(le.Uint16(image[62:]))
	if size != secHead || n == 0 {
		return nil, badELF("it has no sections")
	}
	if at > uint64(len(image)) || n*secHead > uint64(len(image))-at {
		return nil, badELF("its section headers are not all there")
	}
	for i := range n {
		h := image[at+i*secHead:]
		s := section{
			nameAt: le.Uint32(h), kind: le.Uint32(h[4:]), flags: le.Uint64(h[8:]), offset: le.Uint64(h[24:]),
			size: le.Uint64(h[32:]), link: le.Uint32(h[40:]),
		}
		if uint64(s.link) > n {
			return nil, badELF("section %d names section %d, of %d", i, s.link, n)
		}
		f.sections = append(f.sections, s)
	}
	if names >= n {
		return nil, badELF("the names of its sections are in section %d, of %d", names, n)
	}
	texts, ok := f.bytes(f.sections[names])
	if !ok {
		return nil, badELF("the names of its sections are not all there")
	}
	for i := range f.sections {
		f.sections[i].name = text(texts, f.sections[i].nameAt)
	}
	return f, f.readSymbols()
}

// bytes returns the content of a section; false if it exceeds the image.
func (f *file) bytes(s section) ([]byte, bool) {
	if s.kind == secNoBits {
		return nil, true
	}
	if s.offset > uint64(len(f.image)) || s.size > uint64(len(f.image))-s.offset {
		return nil, false
	}
	return f.image[s.offset : s.offset+s.size], true
}

// text returns the string at an offset of a table; "" if the offset is outside.
func text(table []byte, at uint32) string {
	if uint64(at) >= uint64(len(table)) {
		return ""
	}
	s := string(table[at:])
	if i := strings.IndexByte(s, 0); i >= 0 {
		return s[:i]
	}
	return s
}

// readSymbols reads the first readable table of symbols: .symtab, else .dynsym, the only one of a stripped shared
// object. At least one of them must be a function.
func (f *file) readSymbols() error {
	for _, kind := range []uint32{secSymbols, secDynamic} {
		for _, s := range f.sections {
			if s.kind != kind || !f.readTable(s) {
				continue
			}
			f.stripped = kind == secDynamic
			for _, s := range f.symbols {
				if s.kind == symFunc && s.defined {
					return nil
				}
			}
			return badELF("it has no function")
		}
	}
	return badELF("it has no symbols")
}

// readTable reads one table of symbols; false if it is incomplete.
func (f *file) readTable(s section) bool {
	const entry = 24
	le := binary.LittleEndian
	table, ok := f.bytes(s)
	if !ok || uint64(s.link) >= uint64(len(f.sections)) {
		return false
	}
	texts, ok := f.bytes(f.sections[s.link])
	if !ok {
		return false
	}
	f.symbols = f.symbols[:0]
	for ; len(table) >= entry; table = table[entry:] {
		f.symbols = append(f.symbols, symbol{
			name: text(texts, le.Uint32(table)), kind: table[4] & 15, binding: table[4] >> 4,
			hidden:  table[5]&3 == symHidden,
			defined: le.Uint16(table[6:]) != 0, value: le.Uint64(table[8:]), size: le.Uint64(table[16:]),
		})
	}
	return true
}

// loaded returns the number of bytes from the start of the first to the end of the last section that takes memory.
func (f *file) loaded() uint64 {
	var lo, hi uint64
	first := true
	for _, s := range f.sections {
		if s.flags&secAlloc == 0 || s.kind == secNoBits {
			continue
		}
		if first {
			lo, first = s.offset, false
		}
		hi = max(hi, s.offset+s.size)
	}
	return hi - lo
}

// Needed returns the libraries that a shared object needs; none if it has no sections or is damaged.
func Needed(image []byte) (names []string) {
	const dynamic, tagNeeded, entry = 6, 1, 16
	le := binary.LittleEndian
	f, err := readELF(image)
	if err != nil {
		return nil
	}
	for _, s := range f.sections {
		if s.kind != dynamic || int(s.link) >= len(f.sections) {
			continue
		}
		table, there := f.bytes(s)
		texts, also := f.bytes(f.sections[s.link])
		if !there || !also {
			continue
		}
		for ; len(table) >= entry; table = table[entry:] {
			if at := le.Uint64(table[8:]); le.Uint64(table) == tagNeeded && at < uint64(len(texts)) {
				names = append(names, text(texts, uint32(at)))
			}
		}
	}
	return names
}
