package signal

import (
	"os"
	"sync"
	"sync/atomic"
	"time"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/memory"
	"ropeway/internal/driver"
	"ropeway/internal/observe"
	"ropeway/internal/share"
)

// An IPC event is an event with records and waits of several processes. Its records are numbered in a page that all of
// them share: a wait is for the latest record of any process at the time the wait is queued, and is over when that
// record is. A ring has the states of records, because records of several streams end in any order.
type ipcEvent struct {
	cell *cell

	mu   sync.Mutex
	key  *share.Key // guarded by mu; nil if it is not exported
	gone bool       // guarded by mu; the handle was destroyed
}

// The words of the page.
const (
	ipcBegun  = iota // number of records begun
	ipcQueued        // number of the latest queued record, for waits
	ipcSpaces        // name spaces of processes that record; the first word is not used
	// for each place of the ring: number<<1 | dropped of the last record there that is over, and the maker of the last
	// record
	ipcRing = ipcSpaces + ipcSpaceCount
)

const (
	ipcPlaces     = 128
	ipcSpaceCount = 1 << makerSpace
	ipcWords      = ipcRing + 2*ipcPlaces
)

// ipcPlace returns the indices of the words with the end of a record and its maker.
func ipcPlace(number uint64) (end, maker int) {
	i := ipcRing + 2*int(number%ipcPlaces)
	return i, i + 1
}

// newIPCEvent returns an event with a new page, and openIPCEvent one with the page of another process's files.
func newIPCEvent() (*ipcEvent, error) {
	x := &ipcEvent{cell: newCell(ipcWords)}
	files, err := x.cell.share()
	if err != nil {
		return nil, err
	}
	closeAll(files)
	x.cell.suspect = x.orphans
	return x, nil
}

func openIPCEvent(files []*os.File) (*ipcEvent, error) {
	c, err := openCell(ipcWords, files)
	if err != nil {
		return nil, err
	}
	x := &ipcEvent{cell: c}
	c.suspect = x.orphans
	return x, nil
}

// begin numbers a record; 0 if records that are not over have all places.
//
// A process takes a number by writing its maker to the place. A process that finds it taken counts it in ipcBegun,
// because the taker may have been killed before doing that. Arbitrary writes of other processes cost a record, not an
// endless search.
func (x *ipcEvent) begin() (number uint64) {
	x.cell.look(func(w []atomic.Uint64) {
		me := thisMaker(w)
		for range 8 * ipcPlaces {
			last := w[ipcBegun].Load()
			n := last + 1
			_, place := ipcPlace(n)
			m := maker(w[place].Load())
			switch {
			case w[ipcBegun].Load() != last: // m may be of a later lap
				continue
			case m.of(n):
			case !vacate(w, n, m):
				return
			case w[place].CompareAndSwap(uint64(m), uint64(me.made(n))):
				number = n
			default:
				continue
			}
			w[ipcBegun].CompareAndSwap(last, n)
			if number != 0 {
				return
			}
		}
	})
	return number
}

// vacate reports whether the record at the place of n, one lap before, is over, and ends it if its process has ended.
// Its maker is m, unless m is of another lap.
func vacate(w []atomic.Uint64, n uint64, m maker) bool {
	if n <= ipcPlaces || over(w, n-ipcPlaces) {
		return true
	}
	if m.of(n-ipcPlaces) && !m.ended(w) {
		return false
	}
	drop(w, n-ipcPlaces)
	return true
}

// drop ends a record that nothing else will end.
func drop(w []atomic.Uint64, number uint64) {
	end, _ := ipcPlace(number)
	raise(&w[end], number<<1|1)
}

// queued makes a record the latest for waits.
func (x *ipcEvent) queued(number uint64) {
	x.cell.look(func(w []atomic.Uint64) { raise(&w[ipcQueued], number) })
}

// end records that a record has run or was dropped.
func (x *ipcEvent) end(number uint64, dropped bool) {
	x.cell.change(func(w []atomic.Uint64) {
		end, _ := ipcPlace(number)
		v := number << 1
		if dropped {
			v |= 1
		}
		raise(&w[end], v)
	})
}

// raise sets a word to v, unless it is larger.
func raise(word *atomic.Uint64, v uint64) {
	for old := word.Load(); old < v && !word.CompareAndSwap(old, v); old = word.Load() {
	}
}

// latest returns the number of the latest record.
func (x *ipcEvent) latest() (number uint64) {
	x.cell.look(func(w []atomic.Uint64) { number = w[ipcQueued].Load() })
	return number
}

// over reports whether a record is over.
func over(w []atomic.Uint64, number uint64) bool {
	end, _ := ipcPlace(number)
	return w[end].Load()>>1 >= number
}

// orphans drops records of processes that have ended, since nothing else does. cell.mu is held.
func (x *ipcEvent) orphans() (changed bool) {
	w := x.cell.words
	ended := map[maker]bool{}
	last := w[ipcQueued].Load()
	for n := last; n > 0 && last-n < ipcPlaces; n-- {
		if over(w, n) {
			continue
		}
		_, place := ipcPlace(n)
		m := maker(w[place].Load())
		gone, asked := ended[m.process()]
		if !asked {
			gone = m.ended(w)
			ended[m.process()] = gone
		}
		if gone {
			drop(w, n)
			changed = true
		}
	}
	return changed
}

// ipcRecord is one record of an IPC event, as a flag for queries and waits of the host. Streams wait by a gate.
type ipcRecord struct {
	x      *ipcEvent
	number uint64
	rt     *core.Runtime
	here   bool // this process made it
}

func (r ipcRecord) Set()         { r.x.end(r.number, false) }
func (r ipcRecord) SetAt() int64 { return 0 }

func (r ipcRecord) IsSet() bool {
	known := r.querying(false)
	isOver, dropped := r.state()
	known(isOver && !dropped)
	return isOver && !dropped
}

// querying reports to the checker that the host asks whether the record is over; the result is called with the answer.
func (r ipcRecord) querying(waits bool) (known func(over bool)) {
	return r.rt.Querying(&r.x.cell.order, waits, r.here)
}

// state returns the state of the record. An old record whose place another one has counts as done.
func (r ipcRecord) state() (isOver, dropped bool) {
	r.x.cell.look(func(w []atomic.Uint64) {
		end, _ := ipcPlace(r.number)
		isOver, dropped = over(w, r.number), w[end].Load() == r.number<<1|1
	})
	return isOver, dropped
}

// Err returns why the record was never done. Only the process that made it knows the reason.
func (r ipcRecord) Err() error {
	if _, dropped := r.state(); dropped {
		return droppedElsewhere{}
	}
	return nil
}

func (r ipcRecord) Wait(timeout time.Duration, cancel <-chan struct{}) bool {
	known := r.querying(true)
	isOver := r.x.cell.await(r.met, core.WaitLimit{Timeout: timeout, Cancel: cancel})
	known(isOver)
	return isOver
}

func (r ipcRecord) met(w []atomic.Uint64) bool { return over(w, r.number) }

// droppedElsewhere is the error of a dropped record of an IPC event.
type droppedElsewhere struct{}

func (droppedElsewhere) Error() string {
	return "the record of the event was dropped with the work of its stream, or its process has ended"
}
func (droppedElsewhere) Code() abi.Code { return abi.ErrRTStreamAbort }

// Last implements core.SharedEvent.
func (x *ipcEvent) Last(e *core.Event) core.EventRecord {
	number := x.latest()
	if number == 0 {
		return core.EventRecord{}
	}
	own := e.Own()
	r, here := core.EventRecord{Number: number}, own.Number == number
	if here {
		r.On, r.Task = own.On, own.Task
	}
	r.Flag = ipcRecord{x, number, e.Runtime, here}
	return r
}

// Record implements core.SharedEvent.
func (x *ipcEvent) Record(api string, t *core.Thread, e *core.Event, s *core.Stream) *core.Error {
	number := x.begin()
	if number == 0 {
		e.Release()
		return core.Fail(api, abi.ErrRTNoEventResource, "event",
			"its last %d records are not over yet; synchronise first", ipcPlaces)
	}
	tag, done := s.NextTag(t, &x.cell.order), false
	op := driver.Op{Kind: driver.OpFunc, Tag: tag, Fn: func() {
		done = true
		x.end(number, false)
	}, Done: func() {
		if !done {
			x.end(number, true)
		}
		e.Release()
	}}
	r := core.EventRecord{Number: number, Flag: ipcRecord{x, number, t.Runtime, true}, On: s,
		Task: s.TaskNumber(tag)}
	s.Put(api, t, core.Task{Op: op, Kind: observe.Record, About: uint64(e.Handle)})
	x.queued(number)
	e.Queued(r)
	return nil
}

// Wait implements core.SharedEvent.
func (x *ipcEvent) Wait(api string, t *core.Thread, e *core.Event, s *core.Stream, r core.EventRecord,
	timeout time.Duration) {
	record := r.Flag.(ipcRecord)
	w := &cellWait{c: x.cell, met: record.met, here: record.here}
	op := driver.Op{Kind: driver.OpWaitCond, Gate: w, Timeout: timeout, Done: e.WaitOver}
	s.Put(api, t, core.Task{Op: op, Kind: observe.Wait, About: uint64(e.Handle), After: r, Order: &x.cell.order})
}

// IpcGetEventHandle is aclrtIpcGetEventHandle. Later calls return the same handle, until aclFinalize.
func IpcGetEventHandle(t *core.Thread, event core.Handle, handle *abi.IpcEventHandle) *core.Error {
	const api = "aclrtIpcGetEventHandle"
	e, err := checkIpcGetEventHandle(t, event, handle)
	if err != nil {
		return err
	}
	x := e.Shared.(*ipcEvent)
	key, err := core.Under(&x.mu, func() (share.Key, *core.Error) {
		if x.gone {
			return share.Key{}, core.NoEvent(api, "event", event)
		}
		if x.key == nil {
			files, err := x.cell.share()
			if err != nil {
				return share.Key{}, memory.ShareError(api, "event", err)
			}
			key, err := t.Runtime.Broker.Export(share.Item{Kind: share.Event, Files: files}, share.Options{Open: true})
			if err != nil {
				return share.Key{}, memory.ShareError(api, "event", err)
			}
			x.key = &key
		}
		return *x.key, nil
	})
	if err != nil {
		return err
	}
	key.Block(handle.Reserved[:])
	return nil
}

// IpcOpenEventHandle is aclrtIpcOpenEventHandle. The exporter may destroy its event: its records are still available
// here.
func IpcOpenEventHandle(t *core.Thread, handle abi.IpcEventHandle, event *core.Handle) *core.Error {
	const api = "aclrtIpcOpenEventHandle"
	c, refusal := checkIpcOpenEventHandle(t, handle, event)
	if refusal != nil {
		return refusal
	}
	key, ok := share.FromBlock(handle.Reserved[:])
	if !ok {
		return core.Refused(api, "handle", "is not one of aclrtIpcGetEventHandle")
	}
	it, err := t.Runtime.Broker.Import(key, share.Event)
	if err != nil {
		return memory.ShareError(api, "handle", err)
	}
	x, err := openIPCEvent(it.Files)
	if err != nil {
		return core.Refused(api, "handle", "does not lead to an event: %v", err)
	}
	return t.AddEvent(api, c, event, core.ExEvent, abi.EventIpc, x)
}

// Withdraw implements core.SharedEvent.
func (x *ipcEvent) Withdraw(e *core.Event) {
	core.Locked(&x.mu, func() { x.gone = true })
	x.unshare(e)
}

// Release implements core.SharedEvent.
func (x *ipcEvent) Release() { x.cell.release() }

// unshare ends the export of an IPC event, if there is one; the next handle will differ.
func (x *ipcEvent) unshare(e *core.Event) {
	x.mu.Lock()
	key := x.key
	x.key = nil
	x.mu.Unlock()
	if key != nil {
		e.Runtime.Broker.Withdraw(*key)
	}
}
