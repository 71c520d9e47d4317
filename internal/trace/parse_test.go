package trace

import (
	"bytes"
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"testing"

	"ropeway/internal/observe"
	"ropeway/internal/recorder"
	"ropeway/internal/testenv"
)

// recording is the bytes of a small file.
func recording(t testing.TB) []byte {
	t.Helper()
	dir := t.TempDir()
	server := 3
	r, err := recorder.Open(recorder.Options{Dir: dir, Driver: "soft", Program: []string{"program", "argument"},
		Server: &server})
	testenv.OK(t, err)
	r.Device(0, "a chip with a name that does not fit into one record")
	r.Stream(1, 0, false)
	start := r.Now()
	r.Submitted(observe.Task{Kind: observe.Record, Stream: 1, Number: 1, Thread: 7, Submit: start,
		Call: start, Event: 9})
	r.Ran(1, 1, 0, r.Now(), observe.Result{Code: 507})
	r.Submitted(observe.Task{Kind: observe.Wait, Stream: 1, Number: 2, Thread: 7, Submit: r.Now(), Call: start,
		Event: 9, After: observe.At{Stream: 1, Number: 1}})
	r.Called(observe.Call{Function: r.Function("aclrtRecordEvent"), Thread: 7, Stream: 1, Start: start,
		End: r.Now(), Blocked: 1})
	testenv.OK(t, r.Close())
	files, _ := filepath.Glob(filepath.Join(dir, "*"))
	b, err := os.ReadFile(files[0])
	testenv.OK(t, err)
	return b
}

// TestTexts: names longer than a record are whole, and what is in a file is what was put there.
func TestTexts(t *testing.T) {
	p, err := read(bytes.NewReader(recording(t)))
	testenv.OK(t, err)
	if name := p.texts[textKey{recorder.TextDevice,
		0}]; name != "a chip with a name that does not fit into one record" {
		t.Errorf("named %q", name)
	}
	if c := p.command(); len(c) != 2 || c[0] != "program" || c[1] != "argument" || p.driver() != "soft" {
		t.Errorf("%q on %q", c, p.driver())
	}
	if n := p.server(); n == nil || *n != 3 {
		t.Errorf("server %v, want 3", n)
	}
	if len(p.tasks) != 2 || len(p.rans) != 1 || p.rans[0].code != 507 || len(p.calls) != 1 || len(p.more) != 2 ||
		len(p.blocked) != 1 {
		t.Errorf("%+v", p)
	}
}

// TestCopied: a call that made one copy is a task, its end and a call, whether it fitted into one record or not.
func TestCopied(t *testing.T) {
	dir := t.TempDir()
	r, err := recorder.Open(recorder.Options{Dir: dir, Driver: "soft", Program: []string{"program"}})
	testenv.OK(t, err)
	r.Device(3, "chip")
	r.Stream(1, 3, false)
	f := r.Function("aclrtMemcpyAsync")
	start := r.Now()
	for n, bytes := range []uint64{64, 5 << 30} {
		c := observe.Call{Function: f, Thread: 7, Stream: 1, Start: start + int64(n)*1000, End: start +
			int64(n)*1000 + 700}
		r.Copied(c, observe.Task{Direction: observe.DeviceToHost, Memory: observe.Registered, Stream: 1,
			Number: uint32(n + 1), Thread: 7, Device: 3, Bytes: bytes, Submit: c.Start, Call: c.Start})
	}
	testenv.OK(t, r.Close())
	run, err := Read(dir)
	if err != nil || len(run.Tasks) != 2 || len(run.Calls) != 2 || len(run.Devices) != 1 {
		t.Fatalf("%+v, %v", run, err)
	}
	for i, bytes := range []uint64{64, 5 << 30} {
		k, c := run.Tasks[i], run.Calls[i]
		if k.Bytes != bytes || k.Kind != observe.Copy || k.Direction != observe.DeviceToHost ||
			k.Memory != observe.Registered || k.Call != i || k.Device != 0 ||
			run.Streams[k.Stream].Device != 0 || k.Number != uint32(i+1) || !k.Ran() || k.Start != c.Start ||
			k.End != c.End || k.End <= k.Start {
			t.Errorf("%d bytes: %+v in %+v", bytes, k, c)
		}
		if run.Functions[c.Function] != "aclrtMemcpyAsync" || run.Threads[c.Thread].ID != 7 ||
			c.Stream != k.Stream || c.Code != 0 {
			t.Errorf("%d bytes: %+v", bytes, c)
		}
	}
}

// TestLatestName: of a thread that was renamed in a long run the last name counts.
func TestLatestName(t *testing.T) {
	b := recording(t)
	text := func(name string) []byte {
		r := make([]byte, recorder.RecordBytes)
		r[0], r[1], r[2] = byte(recorder.TextType), recorder.TextThread, byte(len(name))
		binary.LittleEndian.PutUint32(r[4:], 7)
		copy(r[8:], name)
		return r
	}
	file := make([]byte, recorder.HeaderBytes+(recorder.Slots+1)*recorder.SlotBytes)
	copy(file, b[:recorder.HeaderBytes])
	binary.LittleEndian.PutUint64(file[8*recorder.HeadSlots:], 2) // the first slot will be the second window
	copy(file[recorder.HeaderBytes:], text("new"))
	copy(file[recorder.HeaderBytes+recorder.Slots*recorder.SlotBytes:], text("old"))
	p, err := read(bytes.NewReader(file))
	if err != nil || p.texts[textKey{recorder.TextThread, 7}] != "new" {
		t.Errorf("%q, %v", p.texts[textKey{recorder.TextThread, 7}], err)
	}
}

// TestDamaged: times beyond reason and functions without number do not make a run that nobody can show.
func TestDamaged(t *testing.T) {
	dir := t.TempDir()
	r, err := recorder.Open(recorder.Options{Dir: dir, Driver: "soft", Program: []string{"program"}})
	testenv.OK(t, err)
	start := r.Now()
	for i := range int64(mostFunctions + 100) {
		r.Called(observe.Call{Function: uint16(i), Thread: 7, Stream: observe.None, Start: start + i,
			End: math.MaxInt64 - i})
	}
	r.Called(observe.Call{Function: 0, Thread: 7, Stream: observe.None, Start: start + mostFunctions + 200, End: start +
		mostFunctions + 201})
	testenv.OK(t, r.Close())
	run, err := Read(dir)
	if err != nil || len(run.Functions) != mostFunctions+1 || run.Duration > longest {
		t.Fatalf("%d functions, %d ns, %v", len(run.Functions), run.Duration, err)
	}
	if f := run.Functions[run.Calls[len(run.Calls)-1].Function]; f != "function 0" {
		t.Errorf("the last call is one of %s", f)
	}
}

// TestWindowInSlot: a window that is still in its slot is not read twice, however much of it was written.
func TestWindowInSlot(t *testing.T) {
	b := recording(t)
	slot := b[recorder.HeaderBytes : recorder.HeaderBytes+recorder.SlotBytes]
	whole := make([]byte, recorder.HeaderBytes+recorder.Slots*recorder.SlotBytes)
	copy(whole, b)
	whole = append(whole, slot[:recorder.SlotBytes/2]...)
	p, err := read(bytes.NewReader(whole))
	if err != nil || len(p.tasks) != 2 {
		t.Errorf("in its slot: %d tasks, %v", len(p.tasks), err)
	}
	binary.LittleEndian.PutUint64(whole[8*recorder.HeadSlots:], 0) // it was written, and the slot is being emptied
	if p, err = read(bytes.NewReader(whole)); err != nil || len(p.tasks) != 2 {
		t.Errorf("in the file: %d tasks, %v", len(p.tasks), err)
	}
}

// FuzzRead: no file, however broken, makes the reader fail in any other way than by an error.
func FuzzRead(f *testing.F) {
	b := recording(f)
	f.Add(b[:recorder.HeaderBytes+4096])
	f.Add(b[:recorder.HeaderBytes])
	f.Add([]byte("nothing"))
	f.Fuzz(func(t *testing.T, b []byte) {
		dir := t.TempDir()
		testenv.OK(t, os.WriteFile(filepath.Join(dir, "1"+recorder.Suffix), b, 0o666))
		run, err := Read(dir)
		if err != nil {
			return
		}
		for _, k := range run.Tasks {
			if k.Stream >= len(run.Streams) || k.Device >= len(run.Devices) || k.Call >= len(run.Calls) ||
				k.Thread >= len(run.Threads) {
				t.Fatalf("%+v", k)
			}
		}
		for _, e := range run.Edges {
			if e.From >= len(run.Tasks) || e.To >= len(run.Tasks) {
				t.Fatalf("%+v", e)
			}
		}
	})
}
