//go:build linux

package ipctest

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"time"

	"ropeway/internal/abi"
	"ropeway/internal/core"
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
	out     *bufio.Writer
}

// work carries out what it is told, line by line, until there is nothing more.
func work(in io.Reader, out io.Writer) {
	p, err := product.Find("A2", "")
	if err != nil {
		panic(err)
	}
	d, err := soft.New(soft.Options{Devices: devices, Memory: memory})
	if err != nil {
		panic(err)
	}
	s := &state{rt: core.New(core.Options{Driver: d, Product: p}), buffers: map[string]core.Addr{}, out: bufio.NewWriter(out)}
	s.th = s.rt.NewThread(1)
	if err := s.th.SetDevice(0); err != nil {
		panic(err)
	}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		answer, err := s.do(words)
		if err != nil {
			answer = strings.ReplaceAll(fmt.Sprint("error: ", err), "\n", " ")
		} else {
			answer = "ok " + answer
		}
		fmt.Fprintln(s.out, answer)
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
		err := s.th.Malloc(&p, number(w[2]), abi.MemMallocHugeFirst)
		s.buffers[w[1]] = p
		return "", ended(err)
	case "free": // name
		return "", ended(s.th.Free(s.buffers[w[1]]))
	case "export": // name, bytes, flags
		return s.export(w[1], number(w[2]), number(w[3]))
	case "allow": // key, pid
		pid := int32(number(w[2]))
		return "", ended(s.th.IpcMemSetImportPid(cstr(w[1]), &pid, 1))
	case "import": // name, key, flags
		var p core.Addr
		err := s.th.IpcMemImportByKey(&p, cstr(w[2]), number(w[3]))
		if err == nil {
			s.buffers[w[1]] = p
		}
		return "", ended(err)
	case "close": // key
		return "", ended(s.th.IpcMemClose(cstr(w[1])))
	case "fill": // name, offset, bytes, value
		n := number(w[3])
		return "", ended(s.th.Memset(s.buffers[w[1]]+core.Addr(number(w[2])), n, int32(number(w[4])), n))
	case "check": // name, offset, bytes, value
		return "", s.check(s.buffers[w[1]]+core.Addr(number(w[2])), number(w[3]), byte(number(w[4])))
	case "storm": // seed, lane, milliseconds, keys
		return "", s.storm(number(w[1]), number(w[2]), time.Duration(number(w[3]))*time.Millisecond, w[4:])
	case "census":
		return s.census(), nil
	case "fullshm":
		return "", fullShm()
	}
	return "", fmt.Errorf("%q is nothing to do", w)
}

func (s *state) export(name string, n, flags uint64) (string, error) {
	key := make([]byte, 65)
	err := s.th.IpcMemGetExportKey(s.buffers[name], n, &key[0], uint64(len(key)), flags)
	text, _, _ := strings.Cut(string(key), "\x00")
	return text, ended(err)
}

func (s *state) check(p core.Addr, n uint64, value byte) error {
	b := make([]byte, n)
	if err := s.th.Memcpy(core.AddrOf(b), n, p, n, abi.MemcpyDeviceToHost); err != nil {
		return err
	}
	for i, got := range b {
		if got != value {
			return fmt.Errorf("byte %d is %d, want %d", i, got, value)
		}
	}
	return nil
}

// storm imports, writes, reads and closes what the keys name, and exports, frees and closes memory of its own, at random. In each shared
// buffer this process writes its own lane only, and sees what it wrote through whatever mapping. That exporters are killed meanwhile shows as a code.
func (s *state) storm(seed, mine uint64, long time.Duration, keys []string) error {
	r := rand.New(rand.NewPCG(seed, mine))
	at := core.Addr(mine * lane)
	var stream core.Handle
	if err := s.th.CreateStream(&stream); err != nil {
		return err
	}
	defer s.th.DestroyStream(stream)
	for until := time.Now().Add(long); time.Now().Before(until); {
		if r.IntN(4) == 0 {
			if err := s.own(r); err != nil {
				return err
			}
			continue
		}
		key := cstr(keys[r.IntN(len(keys))])
		var p, q core.Addr
		err := s.th.IpcMemImportByKey(&p, key, 0)
		if err == nil {
			if err = s.th.IpcMemImportByKey(&q, key, 0); err != nil {
				s.th.IpcMemClose(key)
			}
		}
		if err != nil {
			if err.Code != abi.ErrRTParamInvalid {
				return err
			}
			continue // its exporter was killed
		}
		value := byte(1 + r.IntN(255))
		n := uint64(1 + r.IntN(lane))
		if err := s.th.MemsetAsync(p+at, n, int32(value), n, stream); err != nil {
			return err
		}
		if err := s.th.SynchronizeStream(stream); err != nil {
			return err
		}
		if err := s.check(q+at, n, value); err != nil {
			return err
		}
		for range 2 {
			if err := s.th.IpcMemClose(key); err != nil {
				return err
			}
		}
	}
	return nil
}

// own exports memory of its own and takes it back, in one of several ways.
func (s *state) own(r *rand.Rand) error {
	var p core.Addr
	n := uint64(1 + r.IntN(4<<20))
	if err := s.th.Malloc(&p, n, abi.MemMallocHugeFirst); err != nil {
		return err
	}
	s.buffers["own"] = p
	key, err := s.export("own", n, uint64(r.IntN(2)))
	if err != nil {
		return err
	}
	if r.IntN(2) == 0 {
		pid := int32(os.Getpid())
		if err := s.th.IpcMemSetImportPid(cstr(key), &pid, 1); err != nil {
			return err
		}
		var q core.Addr
		if err := s.th.IpcMemImportByKey(&q, cstr(key), 0); err != nil {
			return err
		}
		if err := s.th.Memset(q, n, 1, n); err != nil {
			return err
		}
		if err := s.check(p, n, 1); err != nil {
			return err
		}
		if err := s.th.IpcMemClose(cstr(key)); err != nil {
			return err
		}
	}
	if r.IntN(2) == 0 {
		if err := s.th.IpcMemClose(cstr(key)); err != nil {
			return err
		}
	}
	return ended(s.th.Free(p))
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
	if err := s.th.GetMemInfo(abi.MemAttrHBMMem, &free, &total); err != nil {
		panic(err)
	}
	return fmt.Sprintf("%d files, %d sockets, %d mappings, %d bytes in use", files, sockets, strings.Count(string(maps), "memfd:"), total-free)
}
