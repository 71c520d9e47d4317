package trace

import (
	"os"
	"path/filepath"
)

// TempDir makes a temporary directory, above, and names one in it for recordings, which the first process makes: one
// that outlives the reader makes none.
func TempDir(prefix string) (above, dir string, err error) {
	if above, err = os.MkdirTemp("", prefix); err != nil {
		return "", "", err
	}
	if above, err = filepath.Abs(above); err != nil { // the program may go elsewhere
		return "", "", err
	}
	return above, filepath.Join(above, "recorded"), nil
}
