package pod

import (
	"errors"
	"sync"
	"testing"
	"time"

	"ropeway/internal/testenv"
)

// TestNewLinkEndsOld proves that no request of an importer's old link is carried out once it has a new one: writes that
// were given up, but are still on their way to a stopped owner, do not overwrite newer ones.
func TestNewLinkEndsOld(t *testing.T) {
	file := podFile(t, 3, "")
	a, b, c := node(t, file, 0), node(t, file, 1), node(t, file, 2)
	x, _ := export(t, a, 4096, true)
	r, err := b.Import(x.Handle)
	testenv.OK(t, err)
	other, err := c.Import(x.Handle)
	testenv.OK(t, err)
	to := place{x.Handle.Server, x.Handle.Port}
	a.mu.Lock()
	old, _ := a.served[b.importer(to)].(*responder)
	a.mu.Unlock()
	if old == nil {
		t.Fatal("the owner does not know the link")
	}
	l, err := b.dial(to)
	testenv.OK(t, err)
	select {
	case <-old.over:
	default:
		t.Error("the old link goes on while there is a new one")
	}
	select {
	case <-r.link.failed:
	case <-time.After(time.Minute):
		t.Error("the importer does not notice that the old link has ended")
	}
	l.fail(ErrClosed)
	one := heap(t, 1)
	for _, r := range []*Remote{r, other} { // the first makes a new link, the second has kept its own
		if err := wait(t, r.Write, Segment{addressOf(one), 0, 1}); err != nil {
			t.Error(err)
		}
	}
	if !other.link.alive() {
		t.Error("the link of another node has ended")
	}
}

// TestOneLink proves that concurrent imports share one link, and that all fail if it cannot be made.
func TestOneLink(t *testing.T) {
	file := podFile(t, 2, "")
	a, b := node(t, file, 0), node(t, file, 1)
	x, _ := export(t, a, 4096, true)
	gone := x.Handle
	gone.Port = 1 // no process listens there
	var wg sync.WaitGroup
	var all [8]*Remote
	for i := range all {
		wg.Go(func() {
			var err error
			if all[i], err = b.Import(x.Handle); err != nil {
				t.Error(err)
			}
		})
		wg.Go(func() {
			if _, err := b.Import(gone); !errors.Is(err, ErrGone) {
				t.Errorf("from nobody: %v", err)
			}
		})
	}
	wg.Wait()
	for _, r := range all {
		if r == nil || r.link != all[0].link || !r.link.alive() {
			t.Fatal("imports have several links, or one that has failed")
		}
	}
	if all[0].link.users != len(all) {
		t.Errorf("%d users of the link", all[0].link.users)
	}
	if len(b.dialing) != 0 {
		t.Errorf("%d links are still being made", len(b.dialing))
	}
}
