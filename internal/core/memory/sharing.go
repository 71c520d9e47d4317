package memory

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/driver"
	"ropeway/internal/share"
)

// What keys of memory, notifies and events have in common. internal/share decides which process may import what.

// keyRoom is the longest text of a key, with its terminator.
const keyRoom = 65

// shareCodes are the codes of an import that fails; they differ by what is imported.
type shareCodes struct{ unknown, notAllowed abi.Code }

// shareCodesOf are the codes of the kind that a call is about.
func shareCodesOf(api string) shareCodes {
	switch namesPids(api) {
	case namesForKeys:
		return shareCodes{abi.ErrRTDrvInternalError, abi.ErrRTDrvInternalError}
	case namesForHandles, namesForHandles + "V2":
		return shareCodes{abi.ErrRTInvalidHandle, abi.ErrRTDrvInternalError}
	}
	return shareCodes{abi.ErrRTParamInvalid, abi.ErrRTNoPermission}
}

// ShareError turns an error of internal/share into an Error that says what to do.
func ShareError(api, arg string, err error) *core.Error {
	e := &core.Error{Code: abi.ErrRTDrvInternalError, API: api, Arg: arg, Index: -1, Err: err}
	codes := shareCodesOf(api)
	switch {
	case errors.Is(err, share.ErrNotAllowed):
		e.Code = codes.notAllowed
		e.Text = "name this process there with " + namesPids(api) +
			", with the number that aclrtDeviceGetBareTgid gives here"
		if errors.Is(err, share.ErrOtherUser) {
			e.Text = "export it with a white list, and " + e.Text
		} else {
			e.Text += ", or export without a white list"
		}
	case errors.Is(err, share.ErrSilent):
		e.Code = abi.ErrRTIpcError
	case errors.Is(err, share.ErrUnknown), errors.Is(err, share.ErrGone), errors.Is(err, share.ErrGarbage):
		e.Code = codes.unknown
	case errors.Is(err, share.ErrNoProcess):
		e.Code = abi.ErrRTParamInvalid
		e.Text = "aclrtDeviceGetBareTgid, called in the process that is to import, gives its number"
	}
	return e
}

// badShare is the error for memory that cannot be what the exporting process says. The driver has no 107000 for that.
func badShare(api, arg string, err error) *core.Error {
	e := core.FromDriver(api, arg, err)
	if e.Code == abi.ErrRTParamInvalid {
		e.Code = abi.ErrRTDrvInternalError
	}
	return e
}

// The calls that name the processes that may import.
const (
	namesForKeys     = "aclrtIpcMemSetImportPid"
	namesForNotifies = "aclrtNotifySetImportPid"
	namesForHandles  = "aclrtMemSetPidToShareableHandle"
)

// namesPids is the call that names processes for keys of the kind a call is about.
func namesPids(api string) string {
	switch {
	case strings.HasPrefix(api, "aclrtIpcMem"):
		return namesForKeys
	case strings.HasPrefix(api, "aclrtMem") && strings.HasSuffix(api, "V2"):
		return namesForHandles + "V2" // it takes handles of either size
	case strings.HasPrefix(api, "aclrtMem"):
		return namesForHandles
	}
	return namesForNotifies
}

// keyText is the text that the program has at p, keyRoom characters of it at most.
func keyText(p *byte) string {
	text := make([]byte, 0, keyRoom)
	for i := range uint64(keyRoom) {
		c := core.Array(p, i+1)[i]
		if c == 0 {
			break
		}
		text = append(text, c)
	}
	return string(text)
}

// readKey reads a key that the program has as text.
func readKey(api, arg string, p *byte) (share.Key, *core.Error) {
	return parseKey(api, arg, keyText(p), abi.ErrRTParamInvalid)
}

// parseKey makes a key of its text; code is for text that is none.
func parseKey(api, arg, text string, code abi.Code) (share.Key, *core.Error) {
	k, ok := share.ParseText(text)
	if !ok {
		return k, core.Fail(api, code, arg,
			"%.20q… is no key; keys come from the exporting process and are passed on whole, with their terminator",
			text)
	}
	return k, nil
}

// WhiteList is the processes that a program has named for an export, over all calls. Its owner guards it.
type WhiteList struct {
	open  bool                // there is none: all processes may import, and none can be named
	named map[int32]struct{}  // nil until the first
	far   map[farPid]struct{} // nil until the first; of other servers
}

// farPid is a process of another server.
type farPid struct {
	server int
	pid    int32
}

// name lets processes import. A number of 0 is skipped. That a process runs is not checked, but only one that runs
// now will be let in.
func (w *WhiteList) name(api string, b *share.Broker, k share.Key, pids []int32, most int) *core.Error {
	if w.open {
		return core.Fail(api, abi.ErrRTNoPermission, "",
			"it was exported without a white list: every process of the user may import already")
	}
	some := false
	for _, pid := range pids {
		if pid == 0 {
			continue
		}
		some = true
		if _, again := w.named[pid]; !again && len(w.named)+len(w.far) >= most {
			return core.Fail(api, abi.ErrRTDrvInternalError, "pid",
				"%d processes are named already, which is as many as there can be", most)
		}
		if err := b.Allow(k, []int32{pid}); err != nil && !errors.Is(err, share.ErrNoProcess) {
			return ShareError(api, "pid", err)
		}
		if w.named == nil {
			w.named = map[int32]struct{}{}
		}
		w.named[pid] = struct{}{}
	}
	if !some {
		return core.Fail(api, abi.ErrRTDrvInternalError, "pid", "no process is named: every number is 0")
	}
	return nil
}

// nameFar lets processes of another server import. A number of 0 is skipped.
func (w *WhiteList) nameFar(api string, server int, pids []int32, most int) *core.Error {
	some := false
	for _, pid := range pids {
		if pid == 0 {
			continue
		}
		some = true
		if len(w.named)+len(w.far) >= most {
			return core.Fail(api, abi.ErrRTDrvInternalError, "pid",
				"%d processes are named already, which is as many as there can be", most)
		}
		if w.far == nil {
			w.far = map[farPid]struct{}{}
		}
		w.far[farPid{server, pid}] = struct{}{}
	}
	if !some {
		return core.Fail(api, abi.ErrRTDrvInternalError, "pid", "no process is named: every number is 0")
	}
	return nil
}

// writeKey writes a key and its terminator to n bytes of the program; false if it does not fit.
func writeKey(p *byte, n uint64, k share.Key) bool {
	text := k.Text()
	if uint64(len(text)) >= n {
		return false
	}
	room := core.Array(p, uint64(len(text)+1))
	copy(room, text)
	room[len(text)] = 0
	return true
}

// Memory that goes to another process is a file and a note: name of the driver, a 0, fixed fields, the driver's
// own note.
const sharedFields = 1 + 1 + 4 + 8 + 8 + 8

// itemOf is memory as an item; the file is the item's from here on.
func itemOf(rt *core.Runtime, kind share.Kind, s *driver.Shared) share.Item {
	it := share.Item{Kind: kind, Note: append([]byte(rt.Driver.Name()), 0)}
	hasFile := byte(0)
	if s.File != nil {
		hasFile = 1
		it.Files = []*os.File{s.File}
	}
	it.Note = append(it.Note, hasFile, byte(s.Page))
	it.Note = binary.LittleEndian.AppendUint32(it.Note, uint32(int32(s.Device)))
	it.Note = binary.LittleEndian.AppendUint64(it.Note, s.Offset)
	it.Note = binary.LittleEndian.AppendUint64(it.Note, s.Size)
	it.Note = binary.LittleEndian.AppendUint64(it.Note, s.Asked)
	it.Note = append(it.Note, s.Note...)
	return it
}

// sharedOf reads what itemOf wrote in another process; the file stays the item's. ErrFault, wrapped, if it cannot be
// memory of this machine.
func sharedOf(rt *core.Runtime, it share.Item) (*driver.Shared, error) {
	name, b, ok := strings.Cut(string(it.Note), "\x00")
	if !ok || len(b) < sharedFields {
		return nil,
			fmt.Errorf("%w: the exporting process describes it in %d bytes that make no sense; "+
				"both need the same version", driver.ErrFault, len(it.Note))
	}
	if name != rt.Driver.Name() {
		return nil, fmt.Errorf("%w: the exporting process uses the driver %q, this one %q", driver.ErrFault, name,
			rt.Driver.Name())
	}
	f := []byte(b)
	s := &driver.Shared{
		Page:   driver.Page(f[1]),
		Device: int(int32(binary.LittleEndian.Uint32(f[2:]))),
		Offset: binary.LittleEndian.Uint64(f[6:]),
		Size:   binary.LittleEndian.Uint64(f[14:]),
		Asked:  binary.LittleEndian.Uint64(f[22:]),
		Note:   f[sharedFields:],
	}
	switch {
	case len(it.Files) != int(f[0]):
		return nil, fmt.Errorf("%w: %d files came with it", driver.ErrFault, len(it.Files))
	case f[0] == 1:
		s.File = it.Files[0]
	}
	if s.Page > driver.Page1G {
		return nil, fmt.Errorf("%w: pages of kind %d", driver.ErrFault, s.Page)
	}
	if s.Device != driver.OnHost && (s.Device < 0 || s.Device >= rt.Driver.Devices()) {
		return nil, fmt.Errorf("%w: it is on device %d, and this process has %d", driver.ErrFault, s.Device,
			rt.Driver.Devices())
	}
	return s, nil
}
