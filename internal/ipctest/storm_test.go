//go:build linux

package ipctest

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"time"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	corememory "ropeway/internal/core/memory"
	"ropeway/internal/core/signal"
	"ropeway/internal/core/transfer"
)

// offered is what a process has shared with everybody: of each kind one.
type offered struct {
	key    string      // of buffer a
	handle core.Handle // memory without an address
	notify core.Handle
	event  core.Handle
}

const (
	granule = 2 << 20 // of memory without an address
	kinds   = 6       // of things that a storm does
)

// offer shares one thing of each kind, and names them in one word: key, shareable handle, key of the notify, handle of
// the event.
func (s *state) offer() (string, error) {
	o := &s.offered
	var p core.Addr
	if err := corememory.Malloc(s.th, &p, buffer, abi.MemMallocHugeFirst); err != nil {
		return "", err
	}
	s.buffers["a"] = p
	var err error
	if o.key, err = s.export("a", buffer, 1); err != nil {
		return "", err
	}
	prop := abi.PhysicalMemProp{AllocationType: abi.MemAllocationTypePinned, MemAttr: abi.MemAttrHBMMemHuge,
		Location: abi.MemLocation{Type: abi.MemLocationTypeDevice}}
	if err := corememory.MallocPhysical(s.th, &o.handle, granule, &prop, 0); err != nil {
		return "", err
	}
	var shareable uint64
	if err := corememory.MemExportToShareableHandle(s.th, o.handle, abi.MemHandleTypeNone, 1, &shareable); err != nil {
		return "", err
	}
	notifyKey := make([]byte, 65)
	if err := signal.CreateNotify(s.th, &o.notify, 0); err != nil {
		return "", err
	}
	if err := signal.NotifyGetExportKey(s.th, o.notify, &notifyKey[0], 65, 2); err != nil {
		return "", err
	}
	if err := s.th.CreateEventExWithFlag(&o.event, abi.EventIpc); err != nil {
		return "", err
	}
	var event abi.IpcEventHandle
	if err := signal.IpcGetEventHandle(s.th, o.event, &event); err != nil {
		return "", err
	}
	text, _, _ := strings.Cut(string(notifyKey), "\x00")
	return fmt.Sprintf("%s,%d,%s,%s", o.key, shareable, text, hex.EncodeToString(event.Reserved[:])), nil
}

// settle takes back what was offered.
func (s *state) settle() error {
	o := &s.offered
	return errors.Join(
		ended(corememory.IpcMemClose(s.th, cstr(o.key))), ended(corememory.Free(s.th, s.buffers["a"])),
		ended(corememory.FreePhysical(s.th, o.handle)), ended(signal.DestroyNotify(s.th,
			o.notify)), ended(s.th.DestroyEvent(o.event)))
}

// gone reports whether a call ended as it does when the process whose thing it wanted was killed.
func gone(err error) bool {
	return errors.Is(err, abi.ErrRTParamInvalid) || errors.Is(err, abi.ErrRTInvalidHandle) || errors.Is(err,
		abi.ErrRTDrvInternalError)
}

// storm uses what others offer and shares things of its own, at random: imports, writes, reads, records and closes. In
// each shared buffer this process writes its own lane only, and sees what it wrote through whatever mapping. That
// owners are killed meanwhile shows as a code. It reports how often each kind of thing was done.
func (s *state) storm(seed, mine uint64, long time.Duration, offers []string) (string, error) {
	r := rand.New(rand.NewPCG(seed, mine))
	var stream core.Handle
	if err := s.th.CreateStream(&stream); err != nil {
		return "", err
	}
	defer s.th.DestroyStream(stream)
	var done [kinds]int
	for until := time.Now().Add(long); time.Now().Before(until); {
		i := r.IntN(len(offers))
		names := strings.Split(offers[i], ",")
		other := uint64(i) != mine
		kind := r.IntN(kinds)
		if !other && kind > 0 && kind < 4 {
			kind = 4
		}
		var err error
		switch kind {
		case 0:
			err = s.own(r)
		case 1:
			err = s.map1(r, number(names[1]), mine*lane)
		case 2:
			err = s.notifies(names[2], stream)
		case 3:
			err = s.records(names[3], stream)
		case 4: // what others record of ours, we wait for; the record here sees to it that one comes
			err = errors.Join(ended(signal.RecordNotify(s.th, s.offered.notify, stream)),
				ended(signal.WaitAndResetNotify(s.th, s.offered.notify, stream,
					100)), ended(s.th.SynchronizeStream(stream)))
		default:
			err = s.imports(r, names[0], mine*lane, stream)
		}
		switch {
		case err == nil:
			done[kind]++
		case !other || !gone(err):
			return "", fmt.Errorf("of process %d: %w", i, err)
		}
	}
	return strings.Trim(fmt.Sprint(done), "[]"), nil
}

// imports imports a key twice, writes through one mapping and reads through the other.
func (s *state) imports(r *rand.Rand, name string, at uint64, stream core.Handle) error {
	key := cstr(name)
	var p, q core.Addr
	if err := corememory.IpcMemImportByKey(s.th, &p, key, 0); err != nil {
		return err
	}
	defer corememory.IpcMemClose(s.th, key)
	if err := corememory.IpcMemImportByKey(s.th, &q, key, 0); err != nil {
		return err
	}
	defer corememory.IpcMemClose(s.th, key)
	n, value := uint64(1+r.IntN(lane)), byte(1+r.IntN(255))
	if err := transfer.MemsetAsync(s.th, p+core.Addr(at), n, int32(value), n, stream); err != nil {
		return lost(err)
	}
	if err := s.th.SynchronizeStream(stream); err != nil {
		return lost(err)
	}
	return lost(s.check(q+core.Addr(at), n, value))
}

// map1 maps memory without an address, writes and reads it.
func (s *state) map1(r *rand.Rand, shareable, at uint64) error {
	var h core.Handle
	var p core.Addr
	if err := corememory.MemImportFromShareableHandle(s.th, shareable, 0, &h); err != nil {
		return err
	}
	if err := corememory.ReserveMemAddress(s.th, &p, granule, 0, 0, 1); err != nil {
		return lost(err)
	}
	if err := corememory.MapMem(s.th, p, granule, 0, h, 0); err != nil {
		return lost(err)
	}
	n, value := uint64(1+r.IntN(lane)), byte(1+r.IntN(255))
	at += granule / 2
	if err := transfer.Memset(s.th, p+core.Addr(at), n, int32(value), n); err != nil {
		return lost(err)
	}
	return lost(errors.Join(s.check(p+core.Addr(at), n, value),
		ended(corememory.UnmapMem(s.th, p)), ended(corememory.FreePhysical(s.th,
			h)), ended(corememory.ReleaseMemAddress(s.th, p))))
}

// notifies records another process's notify.
func (s *state) notifies(name string, stream core.Handle) error {
	var n core.Handle
	if err := signal.NotifyImportByKey(s.th, &n, cstr(name), 0); err != nil {
		return err
	}
	return lost(errors.Join(ended(signal.RecordNotify(s.th, n, stream)), ended(s.th.SynchronizeStream(stream)),
		ended(signal.DestroyNotify(s.th, n))))
}

// records records another process's event and waits for the latest record, which may be that of a process that is
// killed.
func (s *state) records(name string, stream core.Handle) error {
	e, err := s.openEvent(name)
	if err != nil {
		return err
	}
	err = errors.Join(ended(s.th.RecordEvent(e, stream)), ended(s.th.SynchronizeStream(stream)))
	if waited := s.th.SynchronizeEvent(e); waited != nil && waited.Code != abi.ErrRTStreamAbort {
		err = errors.Join(err, waited)
	}
	return lost(errors.Join(err, ended(s.th.DestroyEvent(e))))
}

// lost is an error of something that was had already: that its owner was killed is no excuse.
func lost(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("lost: %v", err)
}

// own exports memory of its own and takes it back, in one of several ways.
func (s *state) own(r *rand.Rand) error {
	var p core.Addr
	n := uint64(1 + r.IntN(1<<20))
	if err := corememory.Malloc(s.th, &p, n, abi.MemMallocHugeFirst); err != nil {
		return err
	}
	s.buffers["own"] = p
	open := uint64(r.IntN(2))
	key, err := s.export("own", n, open)
	if err != nil {
		return err
	}
	if r.IntN(2) == 0 {
		pid := int32(os.Getpid())
		if open == 0 {
			if err := corememory.IpcMemSetImportPid(s.th, cstr(key), &pid, 1); err != nil {
				return err
			}
		}
		var q core.Addr
		if err := corememory.IpcMemImportByKey(s.th, &q, cstr(key), 0); err != nil {
			return err
		}
		if err := transfer.Memset(s.th, q, n, 1, n); err != nil {
			return err
		}
		if err := s.check(p, n, 1); err != nil {
			return err
		}
		if err := corememory.IpcMemClose(s.th, cstr(key)); err != nil {
			return err
		}
	}
	if r.IntN(2) == 0 {
		if err := corememory.IpcMemClose(s.th, cstr(key)); err != nil {
			return err
		}
	}
	return ended(corememory.Free(s.th, p))
}
