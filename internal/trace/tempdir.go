package trace

import (
	"os"
	"path/filepath"
)

// TempDir creates a temporary directory, above, and returns the name of one in it for recordings. The first recorded
// process creates that; a process that outlives the reader, which removes above, creates none.
func TempDir(prefix string) (above, dir string, err error) {
	if above, err = os.MkdirTemp("", prefix); err != nil {
		return "", "", err
	}
	if above, err = filepath.Abs(above); err != nil { // the program may change its directory
		return "", "", err
	}
	return above, filepath.Join(above, "recorded"), nil
}
