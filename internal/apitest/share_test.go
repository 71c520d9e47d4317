package apitest

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"ropeway"
	"ropeway/internal/driver"
)

const visitorEnv = "ROPEWAY_TEST_VISITOR"

// visitor starts this test again as another process, which runs only the named one: it reads keys from a pipe.
func visitor(t *testing.T, name string) (pid int, keys io.WriteCloser, finish func()) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^"+name+"$", "-test.v")
	cmd.Env = append(os.Environ(), visitorEnv+"=1")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	keys, err := cmd.StdinPipe()
	ok(t, err)
	ok(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return cmd.Process.Pid, keys, func() {
		t.Helper()
		if err := cmd.Wait(); err != nil || !strings.Contains(out.String(), "--- PASS: "+name) {
			t.Errorf("the other process: %v\n%s", err, out.String())
		}
	}
}

// TestShare: another process sees memory as it is, and what it writes is seen here; a notify orders the two.
func TestShare(t *testing.T) {
	d := device(t)
	s := get(d.NewStream())(t)
	mem, host, n := get(d.Alloc(piece))(t), get(d.AllocPinned(piece))(t), get(d.NewNotify())(t)
	ok(t, d.Fill(mem.All(), 'a'))
	pid, keys, finish := visitor(t, "TestVisitor")
	key, bell := get(mem.Share(pid))(t), get(n.Share(pid))(t)
	ok(t, s.WaitNotify(n, time.Minute))
	ok(t, s.Copy(host.All(), mem.All()))
	fmt.Fprintf(keys, "%s %s\n", key, bell)
	ok(t, s.Synchronize(ctx))
	if !bytes.Equal(host.Bytes(), bytes.Repeat([]byte{'b'}, piece)) {
		t.Error("what the other process wrote is not there")
	}
	ok(t, keys.Close()) // it may go
	finish()
	ok(t, mem.Unshare(key))
	if err := mem.Unshare(key); err == nil {
		t.Error("unshared twice")
	}
	ok(t, mem.Close())
	if _, err := mem.Share(); err == nil {
		t.Error("freed memory is shared")
	}
}

// TestVisitor is the other process of TestShare.
func TestVisitor(t *testing.T) {
	if os.Getenv(visitorEnv) == "" {
		t.Skip("TestShare runs it, in a process of its own")
	}
	in := bufio.NewReader(os.Stdin)
	var key, bell ropeway.Key
	if _, err := fmt.Fscanln(in, &key, &bell); err != nil {
		t.Fatal(err)
	}
	d := device(t)
	_, err := d.Import(ctx, key, 1<<30)
	want(t, err, ropeway.ErrRTParamInvalid, "aclrtIpcMemImportByKey", "n")
	mem := get(d.Import(ctx, key, piece))(t)
	_, err = d.Import(ctx, key, piece)
	want(t, err, ropeway.ErrRTParamInvalid, "aclrtIpcMemImportByKey", "key")
	n := get(d.ImportNotify(ctx, bell))(t)
	host := make([]byte, piece)
	ok(t, d.Copy(ropeway.Pageable(host), mem.All()))
	if !bytes.Equal(host, bytes.Repeat([]byte{'a'}, piece)) {
		t.Error("the bytes are others")
	}
	s := get(d.NewStream())(t)
	ok(t, s.Fill(mem.All(), 'b'))
	ok(t, s.RecordNotify(n))
	ok(t, s.Synchronize(ctx))
	_, _ = io.Copy(io.Discard, in) // until the other one has seen it
	ok(t, n.Close())
	ok(t, mem.Close())
	mem = get(d.Import(ctx, key, piece))(t) // free again
	ok(t, mem.Close())
}

// TestShareRefusals: keys that are none, and processes that are none.
func TestShareRefusals(t *testing.T) {
	d := device(t)
	mem := get(d.Alloc(64))(t)
	for _, key := range []ropeway.Key{"", "x", ropeway.Key(strings.Repeat("k", 1000))} {
		if _, err := d.Import(ctx, key, 1); err == nil {
			t.Errorf("key %q names memory", key)
		}
		if _, err := d.ImportNotify(ctx, key); err == nil {
			t.Errorf("key %q names a notify", key)
		}
	}
	if _, err := mem.Share(slices.Repeat([]int{os.Getpid()}, 40)...); err != nil { // more than C takes in one call
		t.Error(err)
	}
	_, err := mem.Share(0)
	want(t, err, ropeway.ErrRTParamInvalid, "aclrtIpcMemSetImportPid", "pid")
	_, err = get(d.AllocPinned(8))(t).Share()
	want(t, err, ropeway.ErrRTParamInvalid, "aclrtIpcMemGetExportKey", "devPtr")
	n := get(d.NewNotify())(t)
	_ = get(n.Share())(t)
	_, err = n.Share()
	want(t, err, ropeway.ErrRTInternalError, "aclrtNotifyGetExportKey", "*")
}

// TestImportHere: what a process imports of itself is closed by Buffer.Free alone, neither in a stream's order nor by
// ending the export.
func TestImportHere(t *testing.T) {
	d := device(t)
	s := get(d.NewStream())(t)
	mem := get(d.Alloc(piece))(t)
	key := get(mem.Share())(t)
	in := get(d.Import(ctx, key, piece))(t)
	want(t, in.CloseOn(s), ropeway.ErrRTParamInvalid, "aclrtMemPoolFreeAsync", "ptr")
	want(t, mem.Unshare(key), ropeway.ErrRTParamInvalid, "aclrtIpcMemClose", "key")
	ok(t, d.Fill(in.All(), 1)) // it is still there
	ok(t, in.Close())
	ok(t, get(d.Import(ctx, key, piece))(t).Close()) // and so is the key
	ok(t, mem.Unshare(key))
	if _, err := d.Import(ctx, key, piece); err == nil {
		t.Error("a key that was closed is imported")
	}
}

// slowImport is a driver whose first import calls meanwhile before it goes on.
type slowImport struct {
	driver.Driver
	driver.Sharer
	meanwhile func()
	later     atomic.Bool
}

func (d *slowImport) Caps() driver.Caps {
	c := d.Driver.Caps()
	c.Share = d
	return c
}

func (d *slowImport) Import(s *driver.Shared) (driver.Memory, error) {
	if !d.later.Swap(true) {
		d.meanwhile()
	}
	return d.Sharer.Import(s)
}

// TestImportsAtOnce: an exporter that does not reply stops no import from another; its own key cannot be
// imported twice meanwhile.
func TestImportsAtOnce(t *testing.T) {
	slow := &slowImport{}
	d := device(t, withDriver(func(drv driver.Driver) driver.Driver {
		slow.Driver = drv
		slow.Sharer = drv.Caps().Share
		return slow
	}))
	mem := get(d.Alloc(piece))(t)
	first, second := get(mem.Share())(t), get(mem.Share())(t)
	slow.meanwhile = func() {
		done := make(chan struct{})
		go func() {
			defer close(done)
			if _, err := d.Import(ctx, first, piece); err == nil {
				t.Error("imported twice")
			}
			if mem.Unshare(first) == nil {
				t.Error("unshared while it is being imported here")
			}
			if b, err := d.Import(ctx, second, piece); err != nil || b.Close() != nil {
				t.Error("the other import:", err)
			}
		}()
		select {
		case <-done:
		case <-time.After(time.Minute):
			t.Error("one import waits for the other")
		}
	}
	ok(t, get(d.Import(ctx, first, piece))(t).Close())
}
