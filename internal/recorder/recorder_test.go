package recorder

import (
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"ropeway/internal/observe"
	"ropeway/internal/testenv"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv("RECORD_IN"); dir != "" {
		os.Exit(recordAll(dir))
	}
	goleak.VerifyTestMain(m)
}

func open(t *testing.T) *Recorder {
	t.Helper()
	r, err := Open(Options{Dir: t.TempDir(), Driver: "soft", Program: []string{"program", strings.Repeat("long", 100)}})
	testenv.OK(t, err)
	return r
}

// one records a copy as a C program's is.
func one(r *Recorder, thread, n uint32) {
	start := r.Now()
	r.Submitted(observe.Task{Stream: 1, Number: n, Thread: thread, Bytes: 64, Submit: start, Call: start})
	r.Ran(1, n, 0, r.Now(), observe.Result{})
	r.Called(observe.Call{Function: 3, Thread: thread, Stream: 1, Start: start, End: r.Now()})
}

// count counts the records of a file by type, as a reader finds them.
func count(t *testing.T, name string) (counts [256]int, header []byte) {
	t.Helper()
	b, err := os.ReadFile(name)
	testenv.OK(t, err)
	word := func(i int) uint64 { return binary.LittleEndian.Uint64(b[8*i:]) }
	inSlot := map[uint64]bool{}
	for i := range Slots {
		inSlot[word(HeadSlots+i)] = true
	}
	for i := 0; HeaderBytes+i*SlotBytes < len(b); i++ {
		if i < Slots && word(HeadSlots+i) == 0 || i >= Slots && inSlot[uint64(i-Slots+1)] {
			continue
		}
		part := b[HeaderBytes+i*SlotBytes : min(len(b), HeaderBytes+(i+1)*SlotBytes)]
		for at := 0; at < len(part); at += RecordBytes {
			counts[part[at]]++
		}
	}
	return counts, b[:HeaderBytes]
}

// TestNothingIsLost: what many threads record at once is in the file, once, while the process goes on and after Close.
func TestNothingIsLost(t *testing.T) {
	r := open(t)
	const threads, each = 8, 20000
	var wg sync.WaitGroup
	for i := range uint32(threads) {
		wg.Go(func() {
			for n := range uint32(each) {
				one(r, 100+i, n)
			}
		})
	}
	wg.Wait()
	r.mu.Lock()
	for r.flushing > 0 { // a reader of the file may miss a slot that is being emptied
		r.changed.Wait()
	}
	r.mu.Unlock()
	for _, when := range []string{"before Close", "after Close"} {
		counts, _ := count(t, r.file.Name())
		for _, what := range []Type{TaskType, RanType, CallType} {
			if counts[what] != threads*each {
				t.Errorf("%s: %d records of type %d, want %d", when, counts[what], what, threads*each)
			}
		}
		if when == "before Close" {
			testenv.OK(t, r.Close())
		}
	}
	one(r, 1, 1) // lost, without harm
}

// TestNothingIsAllocated: a task costs no memory.
func TestNothingIsAllocated(t *testing.T) {
	r := open(t)
	defer r.Close()
	r.Function("aclrtMemcpyAsync")
	if n := testing.AllocsPerRun(10000, func() {
		one(r, 1, 1)
		r.Function("aclrtMemcpyAsync")
	}); n >= 1 { // a slot that is written to the file costs a goroutine
		t.Errorf("%v allocations", n)
	}
}

// TestMemoryIsBounded: two million tasks take no more memory than a few.
func TestMemoryIsBounded(t *testing.T) {
	testenv.Long(t, "it writes 200 MB")
	r := open(t)
	defer r.Close()
	memory := func() int64 {
		var u unix.Rusage
		testenv.OK(t, unix.Getrusage(unix.RUSAGE_SELF, &u))
		return u.Maxrss >> 10
	}
	for n := range uint32(100000) {
		one(r, 1, n)
	}
	before := memory()
	for n := range uint32(2e6) {
		one(r, 1, n)
	}
	if grown := memory() - before; grown > 32 {
		t.Errorf("grown by %d MiB", grown)
	}
}

// TestFull: where nothing more can be written recording stops, what was recorded stays, and Close says so.
func TestFull(t *testing.T) {
	r := open(t)
	name := r.file.Name()
	readOnly, err := os.Open(name)
	testenv.OK(t, err)
	r.file.Close()
	r.file = readOnly
	for n := range uint32(50000) {
		one(r, 1, n)
	}
	err = r.Close()
	if err == nil || !strings.Contains(err.Error(), "not complete") {
		t.Errorf("Close: %v", err)
	}
	counts, header := count(t, name)
	if flags := binary.LittleEndian.Uint64(header[8*HeadFlags:]); flags&FlagFull == 0 || flags&FlagEnded == 0 {
		t.Errorf("flags %b", flags)
	}
	lost := int(binary.LittleEndian.Uint64(header[8*HeadLost:]))
	if counts[TaskType] == 0 || lost == 0 {
		t.Errorf("%d tasks recorded, %d records lost", counts[TaskType], lost)
	}
}

// recordAll records in a process of its own until nothing more can be recorded.
func recordAll(dir string) int {
	r, err := Open(Options{Dir: dir})
	if err != nil {
		return 3
	}
	for n := range uint32(400000) {
		one(r, 1, n)
	}
	if r.Close() == nil {
		return 0
	}
	return 4
}

// TestLimit: a process whose files may not be large is neither killed nor stopped.
func TestLimit(t *testing.T) {
	self, err := os.Executable()
	testenv.OK(t, err)
	for limit, want := range map[string]int{"100": 3, "20000": 4, "unlimited": 0} {
		dir := t.TempDir()
		cmd := exec.Command("sh", "-c", "ulimit -f "+limit+"; exec "+self)
		cmd.Env = append(os.Environ(), "RECORD_IN="+dir)
		err := cmd.Run()
		var failed *exec.ExitError
		if err != nil && !errors.As(err, &failed) {
			t.Fatal(err)
		}
		if got := cmd.ProcessState.ExitCode(); got != want {
			t.Errorf("ulimit -f %s: %v, exit code %d, want %d", limit, cmd.ProcessState, got, want)
		}
		files, _ := filepath.Glob(filepath.Join(dir, "*"+Suffix))
		if (len(files) == 0) != (want == 3) {
			t.Errorf("ulimit -f %s: files %v", limit, files)
		}
	}
}

// TestSameProcessTwice: a process that becomes another program begins another file.
func TestSameProcessTwice(t *testing.T) {
	dir := t.TempDir()
	for range 3 {
		r, err := Open(Options{Dir: filepath.Join(dir, "made")})
		testenv.OK(t, err)
		defer r.Close()
	}
	if files, _ := filepath.Glob(filepath.Join(dir, "made", "*"+Suffix)); len(files) != 3 {
		t.Errorf("files %v", files)
	}
}

// TestClock: ticks and nanoseconds are one time.
func TestClock(t *testing.T) {
	c := newClock()
	if got, want := c.nanoseconds(), monotonic(); got-want > 1e6 || want-got > 1e9 {
		t.Errorf("%d ns are %d of the system", got, want)
	}
	a, b := c.now(), c.now()
	if b < a {
		t.Errorf("%d after %d", b, a)
	}
}
