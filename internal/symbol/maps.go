package symbol

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// mapping is a range of addresses with the mapped file.
type mapping struct {
	start, end, offset uint64
	path               string // "" for anonymous memory
	file               bool   // path is a file that can be opened
}

// gone is the kernel's suffix for the name of a deleted file.
const gone = " (deleted)"

// parseMaps reads the kernel's list of mappings. It skips lines that it cannot parse.
func parseMaps(text string) []mapping {
	var all []mapping
	for line := range strings.Lines(text) {
		if m, ok := parseMapping(strings.TrimSuffix(line, "\n")); ok {
			all = append(all, m)
		}
	}
	slices.SortFunc(all, func(a, b mapping) int {
		if a.start < b.start {
			return -1
		}
		return 1
	})
	return all
}

// parseMapping reads "start-end permissions offset device inode   path".
func parseMapping(line string) (m mapping, ok bool) {
	rest := line
	var fields [5]string
	for i := range fields {
		fields[i], rest, _ = strings.Cut(rest, " ")
	}
	from, to, _ := strings.Cut(fields[0], "-")
	var err [3]error
	m.start, err[0] = strconv.ParseUint(from, 16, 64)
	m.end, err[1] = strconv.ParseUint(to, 16, 64)
	m.offset, err[2] = strconv.ParseUint(fields[2], 16, 64)
	if err != [3]error{} || m.end <= m.start {
		return m, false
	}
	m.path = strings.ReplaceAll(strings.TrimLeft(rest, " "), `\012`, "\n")
	m.file = strings.HasPrefix(m.path, "/") && !strings.HasSuffix(m.path, gone)
	return m, true
}

// within returns the mapping that contains an address, or nil.
func within(all []mapping, pc uint64) *mapping {
	i, _ := slices.BinarySearchFunc(all, pc, func(m mapping, pc uint64) int {
		if m.start <= pc {
			return -1
		}
		return 1
	})
	if i == 0 || pc >= all[i-1].end {
		return nil
	}
	return &all[i-1]
}

// module returns the name of the mapped file for frames.
func (m *mapping) module() string {
	if m.path == "" || !strings.HasPrefix(m.path, "/") && m.path != "[vdso]" {
		return ""
	}
	return filepath.Base(strings.TrimSuffix(m.path, gone))
}
