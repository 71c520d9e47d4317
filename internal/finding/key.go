package finding

import (
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
	"strconv"
	"strings"
)

// Key is the same for findings that are one mistake: the rule, and functions, files and lines of all its stacks. What
// changes from run to run (addresses, threads, streams, tasks) does not count.
func (f *Finding) Key() string { return f.identity(true) }

// Fingerprint is a short text that stays when lines move and when the tree is somewhere else: for baselines and
// dashboards.
func (f *Finding) Fingerprint() string {
	sum := sha256.Sum256([]byte(f.identity(false)))
	return hex.EncodeToString(sum[:16])
}

func (f *Finding) identity(exact bool) string {
	var b strings.Builder
	b.WriteString(f.Rule)
	if f.Code != 0 {
		b.WriteString("\x00" + strconv.Itoa(int(f.Code)))
	}
	f.Offence.identity(&b, exact)
	for i := range f.Others {
		f.Others[i].identity(&b, exact)
	}
	return b.String()
}

func (s *Site) identity(b *strings.Builder, exact bool) {
	function, _, _ := strings.Cut(s.Call, "(") // arguments are addresses
	b.WriteString("\n" + s.Role + "\x00" + function)
	library := ""
	for _, f := range s.Stack {
		if SystemLibrary(f.Module) {
			// What memcpy does is one mistake, whichever of its instructions met it; variants of it share code, under
			// either's name.
			if base := filepath.Base(f.Module); base != library {
				library = base
				b.WriteString("\n\t" + base)
			}
			continue
		}
		library = ""
		file := f.File
		if !exact {
			file = filepath.Base(file)
		}
		b.WriteString("\n\t" + f.Function + "\x00" + file)
		if exact {
			b.WriteString("\x00" + strconv.Itoa(f.Line))
		}
		if f.Function == "" && f.File == "" {
			b.WriteString("\x00" + filepath.Base(f.Module))
		}
	}
}

// SystemLibrary reports whether a module is of the C or C++ runtime: programs make mistakes, and it carries them out.
func SystemLibrary(module string) bool {
	for _, name := range [...]string{"libc.so", "libc-", "libstdc++.so", "libm.so", "libgcc_s.so",
		"ld-linux", "libpthread"} {
		if strings.HasPrefix(filepath.Base(module), name) {
			return true
		}
	}
	return false
}
