package pod

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"ropeway/internal/testenv"
)

// TestClosedInChild proves that every socket of a link and every listener is recorded for forked children exactly as
// long as it is open: another file may get its number afterwards.
func TestClosedInChild(t *testing.T) {
	var mu sync.Mutex
	noted, most := map[int]bool{}, 0
	CloseInChild(func(fd int, closes bool) {
		mu.Lock()
		defer mu.Unlock()
		name, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
		if err != nil || !strings.HasPrefix(name, "socket:") || noted[fd] == closes {
			t.Errorf("descriptor %d, noted %v: %v, %s %v", fd, closes, noted[fd], name, err)
		}
		if noted[fd] = closes; !closes {
			delete(noted, fd)
		}
		most = max(most, len(noted))
	})
	t.Cleanup(func() { inherited.Store(nil) })
	file := podFile(t, 2, "")
	a, b := node(t, file, 0), node(t, file, 1)
	x, _ := export(t, a, 4096, true)
	r, err := b.Import(x.Handle)
	testenv.OK(t, err)
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	a.Close()
	b.Close()
	mu.Lock()
	defer mu.Unlock()
	if len(noted) != 0 || most != 3 {
		t.Errorf("of at most %d sockets, %v are still noted; a listener and both ends of a link were", most, noted)
	}
}
