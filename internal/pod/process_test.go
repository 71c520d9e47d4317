package pod

import (
	"bufio"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"ropeway/internal/testenv"
)

// role makes a process of this binary a server of a pod: the pod's file, a blank and the server's number.
const role = "ROPEWAY_POD_TEST"

// onTCP is a line of a pod file: tests use TCP, as between machines, except those of mapped memory.
const onTCP = "transport: tcp\n"

func TestMain(m *testing.M) {
	if text := os.Getenv(role); text != "" {
		file, id, _ := strings.Cut(text, " ")
		if err := work(file, id, os.Stdin, os.Stdout); err != nil {
			fmt.Println("failed", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if name := os.Getenv(stranger); name != "" {
		attackNear(name)
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// pattern fills b with bytes that depend on a number.
func pattern(b []byte, seed int) {
	for i := range b {
		b[i] = byte(i*7 + i>>8 + seed)
	}
}

// differ returns where two slices of one length differ first, and in how many places.
func differ(a, b []byte) (at, n int) {
	for i := range a {
		if a[i] == b[i] {
			continue
		}
		if n == 0 {
			at = i
		}
		n++
	}
	return at, n
}

// work is a server: it carries out the command in each line, and answers with a line.
func work(file, id string, in io.Reader, out io.Writer) error {
	c, err := Read(file, id)
	if err != nil {
		return err
	}
	n, err := New(c)
	if err != nil {
		return err
	}
	defer n.Close()
	var x *Export
	var r *Remote
	copyAll := func(write bool, b []byte) error {
		end := make(chan error, 1)
		f := r.Read
		if write {
			f = r.Write
		}
		f([]Segment{{addressOf(b), 0, uint64(len(b))}}, func(err error) { end <- err })
		err := <-end
		runtime.KeepAlive(b) // the copy has only its address
		return err
	}
	do := func(words []string) (string, error) {
		number := 0
		if len(words) > 1 {
			number, _ = strconv.Atoi(words[1])
		}
		switch words[0] {
		case "export":
			fd, err := unix.MemfdCreate("pod-test", unix.MFD_CLOEXEC)
			if err != nil {
				return "", err
			}
			f := os.NewFile(uintptr(fd), "memory")
			defer f.Close()
			if err := f.Truncate(int64(number)); err != nil {
				return "", err
			}
			if x, err = n.Export(f, 0, About{Size: uint64(number)}, true); err != nil {
				return "", err
			}
			var b [HandleSize]byte
			x.Handle.Put(b[:])
			return hex.EncodeToString(b[:]), nil
		case "import":
			b, err := hex.DecodeString(words[1])
			if err != nil {
				return "", err
			}
			h, ok := ParseHandle(b)
			if !ok {
				return "", errors.New("no handle")
			}
			r, err = n.Import(h)
			return "", err
		case "write":
			b := make([]byte, r.Size)
			pattern(b, number)
			return "", copyAll(true, b)
		case "read", "has":
			var b []byte
			if words[0] == "has" {
				b = x.bytes
			} else {
				b = make([]byte, r.Size)
				if err := copyAll(false, b); err != nil {
					return "", err
				}
			}
			want := make([]byte, len(b))
			pattern(want, number)
			if at, n := differ(b, want); n > 0 {
				return "", fmt.Errorf("%d other bytes, the first at %#x: %d, not %d", n, at, b[at], want[at])
			}
			return "", nil
		case "fill":
			pattern(x.bytes, number)
			return "", nil
		case "loop": // copies until one fails; answers with the error and the time since the previous one
			b := make([]byte, r.Size)
			fmt.Fprintln(out, "looping")
			for i := 0; ; i++ {
				began := time.Now()
				if err := copyAll(i%2 == 0, b); err != nil {
					return fmt.Sprintf("%d %v", time.Since(began).Milliseconds(), err), nil
				}
			}
		case "sink":
			return n.sink(words[1])
		case "push":
			size, _ := strconv.Atoi(words[3])
			count, _ := strconv.Atoi(words[4])
			return n.push(words[1], words[2], size, count)
		case "bench":
			return measure(r, words[1:])
		case "close":
			if r == nil {
				return "", nil
			}
			defer func() { r = nil }()
			return "", r.Close()
		case "withdraw":
			x.Withdraw()
			return "", nil
		case "exports":
			a, b := n.Exports()
			return fmt.Sprint(a, " ", b), nil
		case "held": // descriptors, goroutines and KiB of memory
			list, err := os.ReadDir("/proc/self/fd")
			debug.FreeOSMemory()
			status, _ := os.ReadFile("/proc/self/status")
			_, rss, _ := strings.Cut(string(status), "VmRSS:")
			return fmt.Sprint(len(list), " ", runtime.NumGoroutine(), " ", strings.Fields(rss)[0]), err
		case "files":
			list, err := os.ReadDir("/proc/self/fd")
			return fmt.Sprint(len(list)), err
		}
		return "", fmt.Errorf("no command %q", words[0])
	}
	for s := bufio.NewScanner(in); s.Scan(); {
		if s.Text() == "" {
			continue
		}
		text, err := do(strings.Fields(s.Text()))
		if err != nil {
			fmt.Fprintln(out, "error", strings.ReplaceAll(err.Error(), "\n", " "))
			continue
		}
		fmt.Fprintln(out, strings.TrimSpace("ok "+text))
	}
	return nil
}

// server is another process.
type server struct {
	*testenv.Process

	rounds int    // number of calls of settles
	held   [3]int // the resources it held in the first of them
}

// launch starts server id of the pod in a file; words are a prefix of the command, such as ip netns exec.
func launch(t testing.TB, file string, id int, words ...string) *server {
	t.Helper()
	self, err := os.Executable()
	testenv.OK(t, err)
	words = append(words, self)
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Env = []string{fmt.Sprintf("%s=%s %d", role, file, id)}
	if v, ok := os.LookupEnv("LD_LIBRARY_PATH"); ok {
		cmd.Env = append(cmd.Env, "LD_LIBRARY_PATH="+v)
	}
	return &server{Process: testenv.StartProcess(t, cmd)}
}

// soon repeats a command until it gets the wanted answer.
func (s *server) soon(want, command string) {
	s.T.Helper()
	got := ""
	for begin := time.Now(); time.Since(begin) < time.Minute; time.Sleep(10 * time.Millisecond) {
		if got = s.Does("%s", command); got == want {
			return
		}
	}
	s.T.Errorf("%s says %q, want %q", command, got, want)
}
