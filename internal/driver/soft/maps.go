package soft

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// mapsLine is a line of /proc/self/maps.
type mapsLine struct {
	lo, hi uintptr
	prot   int
	shared bool
	inode  uint64
	path   string
}

// sharable reports whether the memory can be mapped a second time.
func (m *mapsLine) sharable() bool {
	device := strings.HasPrefix(m.path, "/dev/") && !strings.HasPrefix(m.path, "/dev/shm/") &&
		!strings.HasPrefix(m.path, "/dev/zero")
	return m.shared && m.prot&unix.PROT_READ != 0 && !device
}

// movable reports whether the memory is private and anonymous.
func (m *mapsLine) movable() bool {
	own := m.path == "" || m.path == "[heap]" || strings.HasPrefix(m.path, "[anon:") && !strings.HasPrefix(m.path,
		"[anon: Go")
	return !m.shared && m.prot&unix.PROT_READ != 0 && m.inode == 0 && own
}

// gapless reports whether the list covers all of [lo, hi).
func gapless(list []mapsLine, lo, hi uintptr) bool {
	for _, m := range list {
		if m.lo > lo {
			return false
		}
		lo = m.hi
	}
	return lo >= hi
}

// mappings returns the mappings that overlap [lo, hi).
func mappings(lo, hi uintptr) ([]mapsLine, error) {
	text, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return nil, err
	}
	var list []mapsLine
	for line := range strings.Lines(string(text)) {
		from, rest, _ := strings.Cut(line, "-")
		to, rest, _ := strings.Cut(rest, " ")
		first, err1 := strconv.ParseUint(from, 16, 64)
		end, err2 := strconv.ParseUint(to, 16, 64)
		if err1 == nil && err2 == nil && end <= uint64(lo) {
			continue
		}
		if err1 == nil && first >= uint64(hi) {
			break
		}
		f := strings.Fields(rest) // permissions, offset, device, inode, path; the path may be missing or contain spaces
		if err1 != nil || err2 != nil || len(f) < 4 || len(f[0]) < 4 {
			return nil, fmt.Errorf("maps: %q is not understood", line)
		}
		m := mapsLine{lo: uintptr(first), hi: uintptr(end), shared: f[0][3] == 's'}
		for i, bit := range []int{unix.PROT_READ, unix.PROT_WRITE, unix.PROT_EXEC} {
			if f[0][i] != '-' {
				m.prot |= bit
			}
		}
		if m.inode, err = strconv.ParseUint(f[3], 10, 64); err != nil {
			return nil, fmt.Errorf("maps: %q is not understood", line)
		}
		m.path = strings.Join(f[4:], " ")
		list = append(list, m)
	}
	return list, nil
}
