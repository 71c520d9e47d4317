// Package coverage counts which rules of the API table are built and proven.
package coverage

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
)

var checkLine = regexp.MustCompile(`(?m)^\tconst api = "(\w+)"$|\{ // ([-.\w]+)$`)

// Checked are the rules that generated code checks: by function and name.
type Checked map[string]map[string]bool

// ReadChecks returns the rules that the checks.go files below dir, which are generated, name in their comments.
func ReadChecks(dir string) (Checked, error) {
	checked := Checked{}
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Base(path) != "checks.go" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		var function string
		for _, m := range checkLine.FindAllSubmatch(text, -1) {
			if len(m[1]) > 0 {
				function = string(m[1])
				checked[function] = map[string]bool{}
			} else {
				checked[function][string(m[2])] = true
			}
		}
		return nil
	})
	return checked, err
}
