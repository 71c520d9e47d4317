package repo

import (
	"os"
	"path/filepath"
	"testing"

	"ropeway/internal/testenv"
)

// TestRoot: the root is found from anywhere below it, and nowhere else.
func TestRoot(t *testing.T) {
	root, err := Root()
	testenv.OK(t, err)
	if _, err := os.Stat(filepath.Join(root, "internal", "repo", "repo.go")); err != nil {
		t.Error(err)
	}
	t.Chdir(t.TempDir())
	if got, err := Root(); err == nil {
		t.Errorf("outside of the repository its root is %s", got)
	}
}
