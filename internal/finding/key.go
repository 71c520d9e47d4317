package finding

import (
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
	"strconv"
	"strings"
)

// Key returns a text that is equal for findings of one mistake: the rule, and the functions, files and lines of all
// stacks. Addresses, threads, streams and tasks change from run to run and do not count.
func (f *Finding) Key() string { return f.identity(true) }

// Fingerprint returns a short text that does not change when lines or the tree move, for baselines and dashboards.
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
			// All instructions of memcpy make one mistake; its variants share code, under either's name.
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

// SystemLibrary reports whether a module belongs to the C or C++ runtime, which carries out the mistakes of programs.
func SystemLibrary(module string) bool {
	for _, name := range [...]string{"libc.so", "libc-", "libstdc++.so", "libm.so", "libgcc_s.so",
		"ld-linux", "libpthread"} {
		if strings.HasPrefix(filepath.Base(module), name) {
			return true
		}
	}
	return false
}
