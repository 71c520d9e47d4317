package checkrun

import (
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// nothing reports whether no process of any run has called AscendCL.
func (s *Session) nothing() bool {
	for _, run := range s.report.Runs {
		if len(run.Processes) > 0 {
			return false
		}
	}
	return true
}

// whyNothing returns a reason why a program may have reached no checker.
func whyNothing(program string) string {
	const library = "libascendcl.so"
	unknown := "neither it nor a process that it started has called AscendCL through ropeway; " +
		"one that changes LD_LIBRARY_PATH may load another library"
	path, err := exec.LookPath(program)
	if err != nil {
		return unknown
	}
	f, err := elf.Open(path)
	if err != nil {
		return unknown // a script
	}
	defer f.Close()
	dynamic := false
	for _, p := range f.Progs {
		dynamic = dynamic || p.Type == elf.PT_INTERP
	}
	if !dynamic {
		return "it is statically linked, so no library gets into it; a Go program has to import ropeway/check"
	}
	// Unlike RUNPATH, RPATH goes before LD_LIBRARY_PATH.
	if newer, _ := f.DynString(elf.DT_RUNPATH); len(newer) > 0 { //nolint:errcheck // it has none
		return unknown
	}
	folders, _ := f.DynString(elf.DT_RPATH) //nolint:errcheck // it has none
	for _, dir := range strings.Split(strings.Join(folders, ":"), ":") {
		dir = strings.NewReplacer("$ORIGIN", filepath.Dir(path), "${ORIGIN}", filepath.Dir(path)).Replace(dir)
		file := filepath.Join(dir, library)
		if _, err := os.Stat(file); dir != "" && err == nil {
			return fmt.Sprintf("its RPATH makes it load %s instead; link it with -Wl,--enable-new-dtags", file)
		}
	}
	return unknown
}
