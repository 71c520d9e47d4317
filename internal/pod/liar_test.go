package pod

import (
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ropeway/internal/testenv"
)

// liar is a requester whose malicious owner is the test.
func liar(t *testing.T) (*requester, net.Conn) {
	t.Helper()
	mine, theirs := net.Pipe()
	n := node(t, podFile(t, 2, ""), 0)
	q := newRequester(n, func() (*pipe, error) { return barePipe(mine), nil }, func(error) {})
	t.Cleanup(func() { q.close(ErrClosed); theirs.Close() })
	return q, theirs
}

// TestEarlyAnswer proves that a write that the owner answers before it has received all bytes does not end before they
// are sent: the program may free the memory then.
func TestEarlyAnswer(t *testing.T) {
	q, owner := liar(t)
	from := heap(t, 64<<10)
	end := make(chan error, 1)
	q.start(&transfer{write: true, stays: true, segs: []Segment{{addressOf(from), 0, uint64(len(from))}},
		done: func(err error) { end <- err }})
	var b [headerSize]byte
	if _, err := io.ReadFull(owner, b[:]); err != nil {
		t.Fatal(err)
	}
	(&header{kind: kAck}).put(&b)
	if _, err := owner.Write(b[:]); err != nil {
		t.Fatal(err)
	}
	testenv.AwaitParked(t, 1, "pod.(*requester).asked")
	if len(end) > 0 {
		t.Error("the copy has ended, and its memory is still being sent")
	}
	if _, err := io.CopyN(io.Discard, owner, int64(len(from))); err != nil {
		t.Fatal(err)
	}
	if err := <-end; err != nil {
		t.Error(err)
	}
}

// TestLies proves that answers without a request end the link, and the copy with it.
func TestLies(t *testing.T) {
	for name, lie := range map[string]header{
		"another request":      {kind: kData, op: 1, length: 64},
		"data of another size": {kind: kData, length: 65},
		"done without data":    {kind: kAck},
		"a request":            {kind: kWrite, length: 64},
		"no such status":       {kind: kAck, status: 99},
	} {
		q, owner := liar(t)
		room := heap(t, 64)
		end := make(chan error, 1)
		q.start(&transfer{segs: []Segment{{addressOf(room), 0, 64}}, done: func(err error) { end <- err }})
		var b [headerSize]byte
		if _, err := io.ReadFull(owner, b[:]); err != nil {
			t.Fatal(err)
		}
		lie.put(&b)
		if _, err := owner.Write(b[:]); err != nil {
			t.Fatal(err)
		}
		if err := <-end; !errors.Is(err, errAnswer) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestLanes proves that a large copy uses all connections of a link, including idle ones.
func TestLanes(t *testing.T) {
	n := node(t, podFile(t, 2, "connections: 4\n"), 0)
	var answers atomic.Bool
	answers.Store(true)
	asked := make(chan int, 100)
	var wg sync.WaitGroup
	lanes := 0
	dial := func() (*pipe, error) {
		mine, theirs := net.Pipe()
		lane := lanes
		lanes++
		wg.Go(func() {
			var b [headerSize]byte
			for {
				if _, err := io.ReadFull(theirs, b[:]); err != nil {
					return
				}
				h, _ := getHeader(b[:])
				if !answers.Load() {
					asked <- lane
					continue
				}
				(&header{kind: kAck, status: statusRange, op: h.op}).put(&b)
				theirs.Write(b[:]) //nolint:errcheck // it may be closed
			}
		})
		return barePipe(mine), nil
	}
	q := newRequester(n, dial, func(error) {})
	room := heap(t, 1)
	end := make(chan error, 2)
	large := func() {
		q.start(&transfer{segs: []Segment{{addressOf(room), 0, 64 << 20}}, done: func(err error) { end <- err }})
	}
	large()
	if err := <-end; !errors.Is(err, ErrRange) {
		t.Fatal(err)
	}
	for begin := time.Now(); ; time.Sleep(time.Millisecond) {
		q.mu.Lock()
		idle := 0
		for _, c := range q.lanes {
			if !c.sending && c.n == 0 {
				idle++
			}
		}
		q.mu.Unlock()
		if idle == 4 {
			break
		}
		if time.Since(begin) > time.Minute {
			t.Fatalf("%d connections are idle", idle)
		}
	}
	answers.Store(false)
	large()
	var got [4]int
	for range 4 * window {
		got[<-asked]++
	}
	if want := [4]int{window, window, window, window}; got != want {
		t.Errorf("requests on each connection: %v", got)
	}
	q.close(ErrClosed)
	wg.Wait()
}

// TestCloseWaits proves that closing a node ends the running copies: their memory is not used afterwards.
func TestCloseWaits(t *testing.T) {
	file := podFile(t, 2, "")
	a, b := node(t, file, 0), node(t, file, 1)
	x, _ := export(t, a, 64<<20, true)
	for range 10 {
		r, err := b.Import(x.Handle)
		testenv.OK(t, err)
		to := heap(t, 64<<20)
		end := make(chan error, 1)
		r.Read([]Segment{{addressOf(to), 0, 64 << 20}}, func(err error) { end <- err })
		b.Close()
		if len(end) == 0 {
			t.Fatal("the copy goes on")
		}
		b = node(t, file, 1)
	}
}
