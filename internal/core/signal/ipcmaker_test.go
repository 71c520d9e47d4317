package signal

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"ropeway/internal/testenv"
)

// TestIPCBeginKilled: a process that is killed while it begins a record, at whatever moment, takes one number and no
// more.
func TestIPCBeginKilled(t *testing.T) {
	take := func(w []atomic.Uint64, by maker) {
		number := w[ipcBegun].Load() + 1
		_, place := ipcPlace(number)
		w[place].Store(uint64(by.made(number)))
	}
	child := killed(t)
	for name, begun := range map[string]func(w []atomic.Uint64){
		"known to none":  func(w []atomic.Uint64) { thisMaker(w) },
		"not counted":    func(w []atomic.Uint64) { take(w, child(w)) },
		"counted":        func(w []atomic.Uint64) { take(w, child(w)); w[ipcBegun].Add(1) },
		"without a name": func(w []atomic.Uint64) { w[ipcBegun].Add(1) }, // by another process
	} {
		t.Run(name, func(t *testing.T) {
			x, err := newIPCEvent()
			testenv.OK(t, err)
			defer x.cell.release()
			record := func(count int) {
				for i := range count {
					n := x.begin()
					if n == 0 {
						t.Fatalf("record %d of %d is refused", i+1, count)
					}
					x.queued(n)
					x.end(n, false)
				}
			}
			record(200)
			x.cell.look(begun)
			record(4 * ipcPlaces)
			if n, most := x.latest(), uint64(200+1+4*ipcPlaces); n > most || n < most-1 {
				t.Errorf("the latest record is number %d, not %d", n, most)
			}
		})
	}
}

// TestIPCBeginFull: places of records that are not over are not given away, and those of a process that has ended are.
func TestIPCBeginFull(t *testing.T) {
	x, err := newIPCEvent()
	testenv.OK(t, err)
	defer x.cell.release()
	for i := range uint64(ipcPlaces) {
		if n := x.begin(); n != i+1 {
			t.Fatalf("record %d has number %d", i+1, n)
		}
	}
	if n := x.begin(); n != 0 {
		t.Fatalf("number %d is given out although record %d is not over", n, n-ipcPlaces)
	}
	child := killed(t)
	x.cell.look(func(w []atomic.Uint64) {
		_, place := ipcPlace(1)
		w[place].Store(uint64(child(w).made(1)))
	})
	if n := x.begin(); n != ipcPlaces+1 {
		t.Errorf("number %d is given out when the maker of record 1 has ended", n)
	}
	if _, dropped := (ipcRecord{x: x, number: 1}).state(); !dropped {
		t.Error("record 1 was never done")
	}
}

// TestIPCBeginTogether: processes that begin records at the same time get each number once.
func TestIPCBeginTogether(t *testing.T) {
	x, err := newIPCEvent()
	testenv.OK(t, err)
	defer x.cell.release()
	const sides, each = 4, 20 * ipcPlaces
	var taken [sides*each + 1]atomic.Int32
	var all sync.WaitGroup
	for range sides {
		files, err := x.cell.share()
		testenv.OK(t, err)
		y, err := openIPCEvent(files) // with a lock of its own, as another process
		testenv.OK(t, err)
		all.Go(func() {
			defer y.cell.release()
			for range each {
				n := y.begin()
				for ; n == 0; n = y.begin() { // the others are a lap ahead of one that has not had its turn
					runtime.Gosched()
				}
				taken[n].Add(1)
				y.queued(n)
				y.end(n, false)
			}
		})
	}
	all.Wait()
	for n := range taken {
		if got := taken[n].Load(); got != min(int32(n), 1) {
			t.Fatalf("number %d was given out %d times", n, got)
		}
	}
}

// TestIPCBeginAnything: whatever other processes write, beginning a record comes to an end.
func TestIPCBeginAnything(t *testing.T) {
	x, err := newIPCEvent()
	testenv.OK(t, err)
	defer x.cell.release()
	for _, begun := range []uint64{0, 1, 1<<64 - 1, 1<<64 - ipcPlaces, 1 << 62} {
		for _, word := range []uint64{0, 1<<64 - 1, 1 << makerProcess, uint64(maker(5).made(0)),
			uint64(maker(5).made(begun + 1))} {
			x.cell.look(func(w []atomic.Uint64) {
				for i := range w {
					w[i].Store(word)
				}
				w[ipcBegun].Store(begun)
			})
			x.begin()
			x.cell.look(func([]atomic.Uint64) { x.orphans() })
		}
	}
}

// TestIPCMakerEnded: a maker has ended if its process has, even if another has its number now; of other name spaces
// nothing is known.
func TestIPCMakerEnded(t *testing.T) {
	self := thisProcess()
	if self.space == 0 || self.began == 0 {
		t.Fatalf("this process is %+v", self)
	}
	w := make([]atomic.Uint64, ipcWords)
	me := thisMaker(w)
	if again := thisMaker(w); again != me || me.pid() != os.Getpid() || me.began() != self.began ||
		w[ipcSpaces+me.space()].Load() != self.space {
		t.Errorf("this process is %x, then %x", me, again)
	}
	child := killed(t)
	const other = 2
	w[ipcSpaces+other].Store(self.space ^ 1)
	pid, space := uint64(me.pid()), uint64(me.space())
	for _, c := range []struct {
		name string
		m    maker
		want bool
	}{
		{"this process", me.made(7), false},
		{"one whose number this process has", newMaker(pid, space, me.began()^1), true},
		{"the same in another name space", newMaker(pid, other, me.began()^1), false},
		{"the same in a name space that is not known", newMaker(pid, 0, me.began()^1), false},
		{"one that began nobody knows when", newMaker(pid, space, 0), false},
		{"nobody", 0, false},
		{"a process that was killed and not asked for", child(w), true},
		{"a number that nobody has", newMaker(1<<makerPid-1, space, 0), true},
	} {
		if got := c.m.ended(w); got != c.want {
			t.Errorf("%s: ended is %t", c.name, got)
		}
	}
}

// TestIPCSpaces: where there are more name spaces than a page has room for, the rest is not known.
func TestIPCSpaces(t *testing.T) {
	w := make([]atomic.Uint64, ipcWords)
	for i := 1; i < ipcSpaceCount; i++ {
		w[ipcSpaces+i].Store(uint64(i))
	}
	if me := thisMaker(w); me.space() != 0 || me.ended(w) {
		t.Errorf("this process is %x", me)
	}
}

// killed starts a process and kills it; nobody asks for its end before the test is over. It is the maker that it
// would be.
func killed(t *testing.T) func(w []atomic.Uint64) maker {
	t.Helper()
	c := exec.Command("sleep", "1000")
	testenv.OK(t, c.Start())
	t.Cleanup(func() { c.Wait() }) //nolint:errcheck // it was killed
	start, err := began(c.Process.Pid)
	testenv.OK(t, c.Process.Kill())
	testenv.Eventually(t, "a killed process ends", func() bool {
		_, err = began(c.Process.Pid)
		return err != nil
	})
	if !errors.Is(err, unix.ESRCH) || start == 0 {
		t.Fatal(err)
	}
	return func(w []atomic.Uint64) maker {
		return newMaker(uint64(c.Process.Pid), uint64(thisMaker(w).space()), start)
	}
}
