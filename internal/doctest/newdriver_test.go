package doctest

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"ropeway/internal/testenv"
)

// aroundQueue is what docs/new-driver.md leaves out of its simplest driver.
const aroundQueue = `package simplest

import (
	"slices"
	"sync"
	"time"

	"ropeway/internal/driver"
)

const deep = 1 << 10

type Driver struct{}

func (d *Driver) move(op *driver.Op) error { return nil }

type flag struct{ driver.Flag }

func (f *flag) abandon(err error) {}
func (f *flag) clear()            {}

func (q *queue) dropped(number uint64) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return number < q.dropTo
}

`

// TestNewDriverCompiles: the queue that docs/new-driver.md shows is Go that fits the interface of today.
func TestNewDriverCompiles(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs/new-driver.md"))
	testenv.OK(t, err)
	_, queue, found := strings.Cut(string(text), "```go\ntype queue struct")
	queue, _, ended := strings.Cut(queue, "\n```\n")
	if !found || !ended {
		t.Fatal("the page has no queue")
	}
	dir := t.TempDir()
	source := filepath.Join(dir, "simplest.go")
	testenv.OK(t, os.WriteFile(source, []byte(aroundQueue+"type queue struct"+queue+"\n"), 0o644))
	// The go command takes it for a package of this module, which alone may import internal ones.
	inModule, err := filepath.Abs("simplest/simplest.go")
	testenv.OK(t, err)
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{inModule: source}})
	testenv.OK(t, err)
	file := filepath.Join(dir, "overlay.json")
	testenv.OK(t, os.WriteFile(file, overlay, 0o644))
	if out, err := exec.Command("go", "build", "-overlay", file, "./simplest").CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
