package signal

import (
	"math"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/coretest"
	"ropeway/internal/core/memory"
	"ropeway/internal/testenv"
)

// alloc is memory of the thread's device.
func alloc(m *coretest.Machine, n uint64) (p core.Addr) {
	m.Helper()
	m.OK(memory.Malloc(m.Th, &p, n, abi.MemMallocHugeFirst))
	return p
}

func newNotify(m *coretest.Machine) (n core.Handle) {
	m.Helper()
	m.OK(CreateNotify(m.Th, &n, abi.NotifyDefault))
	return n
}

// TestCellOrder: waits are let go in the order of their turn, each record lets one go, and one that leaves at the
// moment at which it was met leaves what it took to the next.
func TestCellOrder(t *testing.T) {
	n := &Notify{}
	for _, shared := range []bool{false, true} {
		c := newCell(notifyWords)
		if shared {
			files, err := c.share()
			testenv.OK(t, err)
			closeAll(files)
		}
		const waits = 5
		woken := make(chan int, waits)
		var list []*cellWait
		for i := range waits {
			w := &cellWait{c: c, met: n.consume, back: n.set}
			if w.Pass(func() { woken <- i }) {
				t.Fatal("passed without a record")
			}
			list = append(list, w)
		}
		next := func() int {
			select {
			case i := <-woken:
				return i
			case <-time.After(time.Minute):
				t.Fatal("nobody was woken")
			}
			return -1
		}
		c.change(n.set)
		if i := next(); i != 0 || !list[0].Pass(nil) {
			t.Errorf("the first record let %d go", i)
		}
		list[2].Leave() // it had not been let go
		c.change(n.set)
		if i := next(); i != 1 {
			t.Errorf("the second record let %d go", i)
		}
		list[1].Leave()
		if i := next(); i != 3 {
			t.Errorf("what was undone let %d go", i)
		}
		list[3].Leave()
		if i := next(); i != 4 {
			t.Errorf("what was undone again let %d go", i)
		}
		list[4].Leave()
		w := &cellWait{c: c, met: n.consume}
		if !w.Pass(nil) {
			t.Error("what was undone last is lost")
		}
		if len(woken) > 0 {
			t.Errorf("%d was let go too", <-woken)
		}
		c.release()
	}
}

// TestCellAwait: threads of the program wait like streams, within a limit.
func TestCellAwait(t *testing.T) {
	n, c := &Notify{}, newCell(notifyWords)
	if c.await(n.consume, core.WaitLimit{Timeout: time.Millisecond}) {
		t.Error("it was not set")
	}
	stop := make(chan struct{})
	time.AfterFunc(time.Millisecond, func() { close(stop) })
	if c.await(n.consume, core.WaitLimit{Cancel: stop}) {
		t.Error("it was not set")
	}
	if len(c.waits) > 0 {
		t.Error("waits are left behind")
	}
	time.AfterFunc(time.Millisecond, func() { c.change(n.set) })
	if !c.await(n.consume, core.WaitLimit{}) {
		t.Error("it was set")
	}
}

// TestCellPageRefused: files that are no page and sockets are refused, and closed.
func TestCellPageRefused(t *testing.T) {
	page := func(size int64, seals int) *os.File {
		fd, err := unix.MemfdCreate("test", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
		testenv.OK(t, err)
		f := os.NewFile(uintptr(fd), "page")
		testenv.OK(t, f.Truncate(size))
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
			t.Fatal(err)
		}
		return f
	}
	socket := func() *os.File {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		testenv.OK(t, err)
		unix.Close(pair[1]) //nolint:errcheck // it is open
		return os.NewFile(uintptr(pair[0]), "socket")
	}
	null := func() *os.File {
		f, err := os.Open(os.DevNull)
		testenv.OK(t, err)
		return f
	}
	before := coretest.OpenFiles(t)
	for name, files := range map[string][]*os.File{
		"none": nil, "no socket": {page(4096, cellPageSeals)}, "one socket": {page(4096, cellPageSeals), socket()},
		"too many": {page(4096, cellPageSeals), socket(), socket(), socket()},
		"short":    {page(100, cellPageSeals), socket(), socket()}, "empty": {page(0, cellPageSeals), socket(),
			socket()}, "long": {page(8192, cellPageSeals), socket(), socket()},
		"can shrink": {page(4096, unix.F_SEAL_GROW), socket(), socket()}, "not sealed": {page(4096, 0), socket(),
			socket()},
		"no page": {null(), socket(), socket()}, "a page for a socket": {page(4096, cellPageSeals), page(4096, 0),
			socket()},
		"null for a socket": {page(4096, cellPageSeals), socket(), null()}, "exchanged": {socket(),
			page(4096, cellPageSeals), socket()},
	} {
		if c, err := openCell(notifyWords, files); err == nil {
			t.Errorf("%s: accepted", name)
			c.release()
		}
	}
	if after := coretest.OpenFiles(t); after != before {
		t.Errorf("%d files are open, %d were before", after, before)
	}
	c, err := openCell(notifyWords, []*os.File{page(4096, cellPageSeals), socket(), socket()})
	testenv.OK(t, err)
	c.release()
}

// TestCellHostile: another process may write anything into the page, fill the socket and change its flags; it can
// confuse processes that share the cell with it, but neither stop nor break them.
func TestCellHostile(t *testing.T) {
	m := coretest.NewMachine(t, "A2", "")
	var event core.Handle
	m.OK(m.Th.CreateEventExWithFlag(&event, abi.EventIpc))
	e := m.Runtime.Events.Get(event)
	files, err := e.Shared.(*ipcEvent).cell.share()
	testenv.OK(t, err)
	other, err := openCell(ipcWords, files)
	testenv.OK(t, err)
	defer other.release()
	stop := make(chan struct{})
	var evil sync.WaitGroup
	evil.Go(func() {
		r := rand.New(rand.NewPCG(1, 2))
		for {
			select {
			case <-stop:
				return
			default:
			}
			other.look(func(w []atomic.Uint64) {
				w[r.IntN(len(w))].Store([]uint64{0, 1, 2, math.MaxUint64, math.MaxUint64 >> 1, 1 << 63, r.Uint64(),
					r.Uint64N(1000)}[r.IntN(8)])
			})
			for _, end := range []syscall.RawConn{other.page.rawReceive, other.page.rawSend} {
				end.Control(func(fd uintptr) { //nolint:errcheck // it is open
					unix.SetNonblock(int(fd), false) //nolint:errcheck // it can be
				})
			}
			other.page.rawSend.Control(func(fd uintptr) { //nolint:errcheck // it is open
				for unix.Send(int(fd), make([]byte, 1000),
					unix.MSG_DONTWAIT) == nil { //nolint:errcheck // until it is full
				}
			})
		}
	})
	m.Within("calls", func() {
		for range 300 {
			s := m.Stream(m.Th)
			var status abi.EventRecordedStatus
			m.Th.RecordEvent(event, s)                 //nolint:errcheck // any answer will do
			m.Th.StreamWaitEvent(s, event)             //nolint:errcheck // any answer will do
			m.Th.QueryEventStatus(event, &status)      //nolint:errcheck // any answer will do
			m.Th.SynchronizeEventWithTimeout(event, 1) //nolint:errcheck // any answer will do
			m.OK(m.Th.DestroyStreamForce(s))
		}
	})
	close(stop)
	evil.Wait()
	m.OK(m.Th.DestroyEvent(event))
}

// TestCellDestroyedInUse: cells are shared, recorded, waited for, dropped and destroyed by many threads at once.
func TestCellDestroyedInUse(t *testing.T) {
	m := coretest.NewMachine(t, "950", "")
	before := coretest.OpenFiles(t)
	const rounds, threads = 60, 4
	for range rounds {
		n := newNotify(m)
		var event, count core.Handle
		m.OK(m.Th.CreateEventExWithFlag(&event, abi.EventIpc))
		m.OK(CntNotifyCreate(m.Th, &count, 0))
		var all sync.WaitGroup
		for i := range threads {
			all.Go(func() {
				th := m.Runtime.NewThread(uint32(i + 2))
				defer th.Close()
				allow(m.T, th.SetDevice(0))
				var s core.Handle
				allow(m.T, th.CreateStream(&s))
				r := rand.New(rand.NewPCG(uint64(i), 7))
				for range 20 {
					var key [65]byte
					var h abi.IpcEventHandle
					var status abi.EventRecordedStatus
					switch r.IntN(10) {
					case 0:
						allow(m.T, NotifyGetExportKey(th, n, &key[0], 65, abi.NotifyExportFlagDisablePidValidation))
					case 1:
						allow(m.T, IpcGetEventHandle(th, event, &h))
					case 2:
						allow(m.T, RecordNotify(th, n, s))
					case 3:
						allow(m.T, WaitAndResetNotify(th, n, s, 0))
					case 4:
						allow(m.T, th.RecordEvent(event, s))
					case 5:
						allow(m.T, th.StreamWaitEvent(s, event))
					case 6:
						allow(m.T, th.QueryEventStatus(event, &status))
					case 7:
						allow(m.T, CntNotifyRecord(th, count, s,
							&abi.CntNotifyRecordInfo{Mode: abi.CntNotifyRecordAddMode, Value: 1}))
					case 8:
						allow(m.T, CntNotifyWaitWithTimeout(th, count, s,
							&abi.CntNotifyWaitInfo{Mode: abi.CntNotifyWaitBiggerMode, Value: 3}))
					case 9:
						allow(m.T, th.SynchronizeEventWithTimeout(event, 1))
					}
				}
				allow(m.T, th.DestroyStreamForce(s))
			})
		}
		all.Go(func() {
			th := m.Runtime.NewThread(99)
			defer th.Close()
			allow(m.T, th.SetDevice(0))
			allow(m.T, DestroyNotify(th, n))
			allow(m.T, th.DestroyEvent(event))
			allow(m.T, CntNotifyDestroy(th, count))
		})
		m.Within("threads", all.Wait)
	}
	testenv.Eventually(t, "its files are closed", func() bool { return coretest.OpenFiles(t) <= before })
}

// allow fails the test unless a call ended well, or found that others had done something to what it is about.
func allow(t *testing.T, err *core.Error) {
	t.Helper()
	if err == nil {
		return
	}
	switch err.Code {
	case abi.ErrRTInvalidHandle, abi.ErrRTEventSyncTimeout, abi.ErrRTStreamAbort, abi.ErrRTInternalError:
	default:
		t.Error(err)
	}
}
