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

// The common part of keys of memory, notifies and events. internal/share decides which process may import a key.

// keyRoom is the longest text of a key, with its terminator.
const keyRoom = 65

// shareCodes are the codes of a failed import; they depend on the kind of object.
type shareCodes struct{ unknown, notAllowed abi.Code }

// shareCodesOf returns the codes for a call.
func shareCodesOf(api string) shareCodes {
	switch namesPids(api) {
	case namesForKeys:
		return shareCodes{abi.ErrRTDrvInternalError, abi.ErrRTDrvInternalError}
	case namesForHandles, namesForHandles + "V2":
		return shareCodes{abi.ErrRTInvalidHandle, abi.ErrRTDrvInternalError}
	}
	return shareCodes{abi.ErrRTParamInvalid, abi.ErrRTNoPermission}
}

// ShareError converts an error of internal/share to an Error with advice.
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

// badShare returns the error for memory that does not match the description of the exporting process. Errors of the
// driver have no code 107000 for that.
func badShare(api, arg string, err error) *core.Error {
	e := core.FromDriver(api, arg, err)
	if e.Code == abi.ErrRTParamInvalid {
		e.Code = abi.ErrRTDrvInternalError
	}
	return e
}

// The calls that allow processes to import.
const (
	namesForKeys     = "aclrtIpcMemSetImportPid"
	namesForNotifies = "aclrtNotifySetImportPid"
	namesForHandles  = "aclrtMemSetPidToShareableHandle"
)

// namesPids returns the call that allows processes to import the keys of a call.
func namesPids(api string) string {
	switch {
	case strings.HasPrefix(api, "aclrtIpcMem"):
		return namesForKeys
	case strings.HasPrefix(api, "aclrtMem") && strings.HasSuffix(api, "V2"):
		return namesForHandles + "V2" // it accepts handles of both sizes
	case strings.HasPrefix(api, "aclrtMem"):
		return namesForHandles
	}
	return namesForNotifies
}

// keyText returns the program's text at p, at most keyRoom characters.
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

// readKey reads the text of a key.
func readKey(api, arg string, p *byte) (share.Key, *core.Error) {
	return parseKey(api, arg, keyText(p), abi.ErrRTParamInvalid)
}

// parseKey parses the text of a key; code is the error code for text that is not one.
func parseKey(api, arg, text string, code abi.Code) (share.Key, *core.Error) {
	k, ok := share.ParseText(text)
	if !ok {
		return k, core.Fail(api, code, arg,
			"%.20q… is no key; keys come from the exporting process and are passed on whole, with their terminator",
			text)
	}
	return k, nil
}

// WhiteList holds the processes allowed to import an export, from all calls. Its owner guards it.
type WhiteList struct {
	open  bool                // there is none: all processes may import, and none can be named
	named map[member]struct{} // nil until the first
}

// member is a process that may import.
type member struct {
	server int // of the pod; -1: this one
	pid    int32
}

// allow lets processes of this server import. That a process runs is not checked, but only one that runs now will be
// let in.
func (w *WhiteList) allow(api string, b *share.Broker, k share.Key, pids []int32, most int) *core.Error {
	if w.open {
		return core.Fail(api, abi.ErrRTNoPermission, "",
			"it was exported without a white list: every process of the user may import already")
	}
	return w.name(api, -1, pids, most, func(pid int32) error { return b.Allow(k, []int32{pid}) })
}

// name notes processes of a server, each of which let has let in. A number of 0 is skipped.
func (w *WhiteList) name(api string, server int, pids []int32, most int, let func(pid int32) error) *core.Error {
	some := false
	for _, pid := range pids {
		if pid == 0 {
			continue
		}
		some = true
		m := member{server, pid}
		if _, again := w.named[m]; !again && len(w.named) >= most {
			return core.Fail(api, abi.ErrRTDrvInternalError, "pid",
				"%d processes are named already, which is as many as there can be", most)
		}
		if err := let(pid); err != nil && !errors.Is(err, share.ErrNoProcess) {
			return ShareError(api, "pid", err)
		}
		if w.named == nil {
			w.named = map[member]struct{}{}
		}
		w.named[m] = struct{}{}
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

// Memory for another process is sent as a file and a note: name of the driver, a 0, fixed fields, the driver's own
// note.
const sharedFields = 1 + 1 + 4 + 8 + 8 + 8

// itemOf converts memory to an item, which then owns the file.
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

// sharedOf decodes the result of itemOf in another process; the item keeps the file. The error wraps ErrFault if it
// cannot be memory of this machine.
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
