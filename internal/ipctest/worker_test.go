//go:build linux

package ipctest

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	corememory "ropeway/internal/core/memory"
	"ropeway/internal/core/transfer"
	"ropeway/internal/driver/soft"
	"ropeway/internal/product"
)

const (
	devices = 2
	memory  = 256 << 20 // of a device
	lane    = 64 << 10  // bytes of a shared buffer that belong to one process
)

// state is what a worker has: named buffers.
type state struct {
	rt      *core.Runtime
	th      *core.Thread
	buffers map[string]core.Addr
	offered offered
	out     *bufio.Writer
}

// work carries out commands, line by line, until there is nothing more.
func work(in io.Reader, out io.Writer) {
	p, err := product.Find("A2", "")
	if err != nil {
		panic(err)
	}
	d, err := soft.New(soft.Options{Devices: devices, Memory: memory})
	if err != nil {
		panic(err)
	}
	s := &state{rt: core.New(core.Options{Driver: d, Product: p}), buffers: map[string]core.Addr{},
		out: bufio.NewWriter(out)}
	s.th = s.rt.NewThread(1)
	if err := s.th.SetDevice(0); err != nil {
		panic(err)
	}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		reply, err := s.do(words)
		if err != nil {
			reply = strings.ReplaceAll(fmt.Sprint("error: ", err), "\n", " ")
		} else {
			reply = "ok " + reply
		}
		fmt.Fprintln(s.out, reply)
		s.out.Flush()
	}
	s.rt.Close()
}

// ended makes an ordinary error of a call's: a nil *Error in an error is not nil.
func ended(err *core.Error) error {
	if err == nil {
		return nil
	}
	return err
}

func cstr(s string) *byte { return &append([]byte(s), 0)[0] }

func number(s string) uint64 {
	n, err := strconv.ParseUint(s, 0, 64)
	if err != nil {
		panic(err)
	}
	return n
}

func (s *state) do(w []string) (string, error) {
	switch w[0] {
	case "device": // number
		return "", ended(s.th.SetDevice(int32(number(w[1]))))
	case "malloc": // name, bytes
		var p core.Addr
		err := corememory.Malloc(s.th, &p, number(w[2]), abi.MemMallocHugeFirst)
		s.buffers[w[1]] = p
		return "", ended(err)
	case "free": // name
		return "", ended(corememory.Free(s.th, s.buffers[w[1]]))
	case "export": // name, bytes, flags
		return s.export(w[1], number(w[2]), number(w[3]))
	case "allow": // key, pid
		pid := int32(number(w[2]))
		return "", ended(corememory.IpcMemSetImportPid(s.th, cstr(w[1]), &pid, 1))
	case "import": // name, key, flags
		var p core.Addr
		err := corememory.IpcMemImportByKey(s.th, &p, cstr(w[2]), number(w[3]))
		if err == nil {
			s.buffers[w[1]] = p
		}
		return "", ended(err)
	case "close": // key
		return "", ended(corememory.IpcMemClose(s.th, cstr(w[1])))
	case "fill": // name, offset, bytes, value
		n := number(w[3])
		return "", ended(transfer.Memset(s.th, s.buffers[w[1]]+core.Addr(number(w[2])), n, int32(number(w[4])), n))
	case "check": // name, offset, bytes, value
		return "", s.check(s.buffers[w[1]]+core.Addr(number(w[2])), number(w[3]), byte(number(w[4])))
	case "offer":
		return s.offer()
	case "record": // handle of an event; the record is never done
		return "", s.record(w[1])
	case "await": // for what was recorded last of the event that is offered
		return "", s.await()
	case "settle":
		return "", s.settle()
	case "storm": // seed, lane, milliseconds, what each process offers
		return s.storm(number(w[1]), number(w[2]), time.Duration(number(w[3]))*time.Millisecond, w[4:])
	case "census":
		return s.census(), nil
	case "fullshm":
		return "", fullShm()
	}
	return "", fmt.Errorf("%q is nothing to do", w)
}

func (s *state) export(name string, n, flags uint64) (string, error) {
	key := make([]byte, 65)
	err := corememory.IpcMemGetExportKey(s.th, s.buffers[name], n, &key[0], uint64(len(key)), flags)
	text, _, _ := strings.Cut(string(key), "\x00")
	return text, ended(err)
}

func (s *state) check(p core.Addr, n uint64, value byte) error {
	b := make([]byte, n)
	if err := transfer.Memcpy(s.th, core.AddrOf(b), n, p, n, abi.MemcpyDeviceToHost); err != nil {
		return err
	}
	for i, got := range b {
		if got != value {
			return fmt.Errorf("byte %d is %d, want %d", i, got, value)
		}
	}
	return nil
}

// census counts what a process may leak: files, mappings of memfds, device memory.
func (s *state) census() string {
	files, sockets := 0, 0
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		panic(err)
	}
	for _, e := range entries {
		to, _ := os.Readlink("/proc/self/fd/" + e.Name())
		switch {
		case strings.Contains(to, "memfd:"), strings.Contains(to, "pidfd"):
			files++
		case strings.HasPrefix(to, "socket:"):
			sockets++
		}
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		panic(err)
	}
	var free, total uint64
	if err := corememory.GetMemInfo(s.th, abi.MemAttrHBMMem, &free, &total); err != nil {
		panic(err)
	}
	return fmt.Sprintf("%d files, %d sockets, %d mappings, %d bytes in use", files, sockets, strings.Count(string(maps),
		"memfd:"), total-free)
}
