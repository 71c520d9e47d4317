package arena

import (
	"bufio"
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// readMemory returns the memory limit of the process and the bytes still available to it, from the files under root:
// /proc/meminfo and the memory limits of every control group around the process, version 1 and 2. others returns the
// number of bytes granted to other processes of a group, which it identifies by the file with its limit.
func readMemory(root string, others func(limit string) uint64) (limit, available uint64, err error) {
	info, err := readTable(filepath.Join(root, "proc/meminfo"))
	if err != nil {
		return 0, 0, err
	}
	limit, available = info["MemTotal:"]<<10, info["MemAvailable:"]<<10
	if limit == 0 || available == 0 {
		return 0, 0, fmt.Errorf("arena: no MemTotal or MemAvailable in meminfo")
	}
	if mode, ok := readNumber(filepath.Join(root, "proc/sys/vm/overcommit_memory")); ok && mode == 2 {
		available = min(available, sub(info["CommitLimit:"], info["Committed_AS:"])<<10)
	}
	for _, g := range groups(root) {
		max, ok := readNumber(filepath.Join(g.dir, g.max))
		if !ok || max >= math.MaxInt64&^0xffff { // version 1 writes "no limit" as a large number
			continue
		}
		used, ok := readNumber(filepath.Join(g.dir, g.used))
		if !ok {
			continue
		}
		// Cold file pages count as used, but the kernel frees them first.
		stat, _ := readTable(filepath.Join(g.dir, "memory.stat"))
		limit = min(limit, max)
		available = min(available, sub(max, sub(used, stat[g.cold])+others(filepath.Join(g.dir, g.max))))
	}
	return limit, available, nil
}

// A group is one control group and the names of its files.
type group struct{ dir, max, used, cold string }

// groups returns the memory control groups of the process, innermost first.
func groups(root string) []group {
	v1, v2 := groupPaths(root)
	var all []group
	f, err := os.Open(filepath.Join(root, "proc/self/mountinfo"))
	if err != nil {
		return nil
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		// 36 35 98:0 ROOT POINT OPTIONS ... - TYPE SOURCE SUPEROPTIONS
		before, after, ok := strings.Cut(s.Text(), " - ")
		left, right := strings.Fields(before), strings.Fields(after)
		if !ok || len(left) < 5 || len(right) < 3 {
			continue
		}
		point := filepath.Join(root, left[4])
		switch {
		case right[0] == "cgroup2" && v2 != "":
			for _, d := range upTo(point, left[3], v2) {
				all = append(all, group{d, "memory.max", "memory.current", "inactive_file"})
			}
		case right[0] == "cgroup" && v1 != "" && hasWord(right[2], "memory"):
			for _, d := range upTo(point, left[3], v1) {
				all = append(all, group{d, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"})
			}
		}
	}
	return all
}

// groupPaths returns the group of the process in the version 1 memory hierarchy
// and in the version 2 hierarchy, "" where it has none.
func groupPaths(root string) (v1, v2 string) {
	b, err := os.ReadFile(filepath.Join(root, "proc/self/cgroup"))
	if err != nil {
		return "", ""
	}
	for line := range strings.Lines(string(b)) {
		part := strings.SplitN(strings.TrimSpace(line), ":", 3)
		switch {
		case len(part) < 3:
		case part[0] == "0" && part[1] == "":
			v2 = part[2]
		case hasWord(part[1], "memory"):
			v1 = part[2]
		}
	}
	return v1, v2
}

// upTo returns the directories of group path and of its ancestors under a mount
// point that shows the hierarchy from mountRoot. A path outside mountRoot, as seen in a container, means the mount
// point itself.
func upTo(point, mountRoot, path string) []string {
	rel, ok := strings.CutPrefix(path, strings.TrimSuffix(mountRoot, "/"))
	dir := filepath.Join(point, rel)
	if _, err := os.Stat(dir); !ok || err != nil {
		dir = point
	}
	all := []string{dir}
	for len(dir) > len(point) {
		dir = filepath.Dir(dir)
		all = append(all, dir)
	}
	return all
}

func hasWord(list, word string) bool {
	return strings.Contains(","+list+",", ","+word+",")
}

func readNumber(path string) (uint64, bool) {
	b, err := os.ReadFile(path)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseUint(string(bytes.TrimSpace(b)), 10, 64)
	return n, err == nil
}

// readTable reads lines of a name and a number.
func readTable(path string) (map[string]uint64, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	t := make(map[string]uint64)
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) >= 2 {
			if n, err := strconv.ParseUint(f[1], 10, 64); err == nil {
				t[f[0]] = n
			}
		}
	}
	return t, nil
}
