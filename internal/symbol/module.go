package symbol

import (
	"bytes"
	"debug/elf"
	"encoding/hex"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"strings"

	"ropeway/internal/finding"
)

// module is an executable or library. Its content is read on first use, and the file is closed again.
type module struct {
	path  string
	debug []string // directories with separate debug files
	used  int      // time of the last use
	bytes int      // approximate memory use
	build *string  // see id; nil: not read yet

	opened   bool
	segments []elf.ProgHeader
	lines    *debugInfo // nil: the file has no debug information
	symbols  []symbol
	named    bool // symbols were read
}

// frames returns the functions at an offset in the file; nil if the file is damaged.
func (m *module) frames(offset uint64) (frames []finding.Frame) {
	defer func() {
		if recover() != nil { // the parsers of the standard library are not hardened against malicious files
			frames = nil
		}
	}()
	if !m.opened {
		m.opened = true
		m.open()
	}
	address, ok := m.address(offset)
	if !ok {
		return nil
	}
	whole := false
	if m.lines != nil {
		frames, whole = m.lines.frames(address)
	}
	if whole {
		return frames
	}
	if name := m.symbol(address); name == "" {
		return frames
	} else if len(frames) == 0 {
		return []finding.Frame{{Function: name}}
	} else {
		frames[len(frames)-1].Function = name
	}
	return frames
}

// address converts an offset in the file to the address in the file's own address space.
func (m *module) address(offset uint64) (uint64, bool) {
	for _, s := range m.segments {
		if offset >= s.Off && offset-s.Off < s.Filesz {
			return offset - s.Off + s.Vaddr, true
		}
	}
	return 0, false
}

func (m *module) open() {
	file, err := openELF(m.path)
	if err != nil {
		return
	}
	defer file.Close()
	var text uint64 // lowest address of code
	for _, p := range file.Progs {
		if p.Type == elf.PT_LOAD {
			m.segments = append(m.segments, p.ProgHeader)
			if p.Flags&elf.PF_X != 0 && (text == 0 || p.Vaddr < text) {
				text = p.Vaddr
			}
		}
	}
	if finding.SystemLibrary(m.path) {
		return // its lines are useless, and reading them takes longer than everything else
	}
	from := file
	if file.section("info") == nil {
		if from = m.openDebug(file); from == nil {
			return
		}
		defer from.Close()
	}
	if data, size := from.debugData(); data != nil {
		m.lines = &debugInfo{data: data, text: text}
		m.bytes += size
	}
}

// elfFile is an open file.
type elfFile struct {
	*elf.File
	f *os.File
}

func openELF(path string) (*elfFile, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() { // a device must not be read
		f.Close()
		return nil, os.ErrInvalid
	}
	file, err := newELF(f)
	if err != nil {
		f.Close()
		return nil, err
	}
	return &elfFile{file, f}, nil
}

// newELF reads the headers of a file. It does not panic.
func newELF(f *os.File) (file *elf.File, err error) {
	defer func() {
		if recover() != nil {
			err = os.ErrInvalid
		}
	}()
	return elf.NewFile(f)
}

func (f *elfFile) Close() { f.f.Close() }

// section finds a section with debug information by the end of its name.
func (f *elfFile) section(name string) *elf.Section {
	for _, prefix := range []string{".debug_", ".zdebug_"} {
		if s := f.Section(prefix + name); s != nil && s.Type != elf.SHT_NOBITS {
			return s
		}
	}
	return nil
}

// openDebug opens the separate file with the debug information of a file; nil if there is none.
func (m *module) openDebug(file *elfFile) *elfFile {
	if id := buildID(file); len(id) > 1 {
		text := hex.EncodeToString(id)
		for _, root := range m.debug {
			if found, err := openELF(filepath.Join(root, ".build-id", text[:2], text[2:]+".debug")); err == nil {
				if bytes.Equal(buildID(found), id) {
					return found
				}
				found.Close()
			}
		}
	}
	name, sum := debugLink(file)
	if name == "" {
		return nil
	}
	dir := filepath.Dir(m.path)
	places := []string{filepath.Join(dir, name), filepath.Join(dir, ".debug", name)}
	for _, root := range m.debug {
		places = append(places, filepath.Join(root, dir, name))
	}
	for _, place := range places {
		if place == m.path {
			continue
		}
		if found, err := openELF(place); err == nil {
			if crc(found.f) == sum {
				return found
			}
			found.Close()
		}
	}
	return nil
}

// buildID returns the build ID of a file; nil if it has none.
func buildID(file *elfFile) []byte {
	note := small(file.Section(".note.gnu.build-id"))
	if len(note) < 16 {
		return nil
	}
	name, size := file.ByteOrder.Uint32(note), file.ByteOrder.Uint32(note[4:])
	if name != 4 || uint64(size) > uint64(len(note)-16) {
		return nil
	}
	return note[16 : 16+size]
}

// debugLink returns the name of a file's debug file and the checksum that it must have.
func debugLink(file *elfFile) (string, uint32) {
	link := small(file.Section(".gnu_debuglink"))
	name, _, found := bytes.Cut(link, []byte{0})
	if !found || len(link) < len(name)+5 || strings.ContainsRune(string(name), '/') {
		return "", 0
	}
	return string(name), file.ByteOrder.Uint32(link[len(link)-4:])
}

// small reads a section; nil if it is larger than 64 KiB.
func small(s *elf.Section) []byte {
	if s == nil || s.Type == elf.SHT_NOBITS || s.Size > 64<<10 {
		return nil
	}
	data, err := s.Data()
	if err != nil {
		return nil
	}
	return data
}

func crc(f *os.File) uint32 {
	sum := crc32.NewIEEE()
	if _, err := io.Copy(sum, io.NewSectionReader(f, 0, 1<<62)); err != nil {
		return 0
	}
	return sum.Sum32()
}

// debugSections are the sections needed for line numbers and functions.
var debugSections = []string{"abbrev", "info", "line", "ranges", "str", "addr", "line_str", "str_offsets", "rnglists"}

// readSection returns the content of a section, decompressed; nil if it is larger than most bytes or damaged.
func readSection(s *elf.Section, most uint64) []byte {
	if s.Size > most {
		return nil
	}
	data, err := s.Data()
	if err != nil {
		return nil
	}
	return data
}
