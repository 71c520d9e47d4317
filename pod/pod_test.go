package pod_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"ropeway"
	"ropeway/internal/testenv"
	"ropeway/pod"
)

// TestMain is the tests, or a server of one of them.
func TestMain(m *testing.M) {
	if os.Getenv(role) != "" {
		serve(os.Stdin, os.Stdout)
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// file writes a pod of two servers on the loopback address, and its key.
func file(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"pod.key": strings.Repeat("k", 32),
		"pod.yaml": "key: pod.key\ntimeout: 2s\nservers:\n  - {id: 3, address: 127.0.0.1}\n" +
			"  - {id: 4, address: 127.0.0.1}\n",
	} {
		ok(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	return filepath.Join(dir, "pod.yaml")
}

func ok(t testing.TB, err error) {
	t.Helper()
	testenv.OK(t, err)
}

// get is for calls with a result that must not fail.
func get[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T { t.Helper(); ok(t, err); return v }
}

// device is device 0 of a runtime of its own: server 3 or 4 of a pod.
func device(t testing.TB, file string, server int) *ropeway.Device {
	t.Helper()
	rt := get(ropeway.Open(options(pod.WithServer(file, server))...))(t)
	t.Cleanup(func() { ok(t, rt.Close()) })
	return get(rt.Device(0))(t)
}

// options are those of a small A3.
func options(more ...ropeway.Option) []ropeway.Option {
	return append([]ropeway.Option{ropeway.WithProduct(ropeway.ProductA3, ropeway.EP), ropeway.WithDevices(1),
		ropeway.WithDeviceMemory(64 << 20)}, more...)
}

// block is memory at addresses.
func block(t testing.TB, d *ropeway.Device, m *ropeway.Physical) *ropeway.Reservation {
	t.Helper()
	r := get(d.Reserve(m.Len()))(t)
	ok(t, r.Map(0, m))
	t.Cleanup(func() { ok(t, r.Close()) })
	return r
}

// content is what memory holds.
func content(t testing.TB, d *ropeway.Device, mem *ropeway.Reservation) []byte {
	t.Helper()
	b := make([]byte, mem.Len())
	ok(t, d.Copy(ropeway.Pageable(b), mem.Range(0, len(b))))
	return b
}

// TestShareFabric: a server has the memory of another by its handle, also as text: copies and fills of streams, copies
// that wait, and a captured graph reach it, and its owner sees what they wrote. Sharing again gives the same handle;
// memory that is closed, or that a server does not know, is refused.
func TestShareFabric(t *testing.T) {
	f := file(t)
	owner, user := device(t, f, 3), device(t, f, 4)
	for d, want := range map[*ropeway.Device]int{owner: 3, user: 4} {
		if n, err := pod.Server(d); n != want || err != nil {
			t.Errorf("server %d, %v; want %d", n, err, want)
		}
	}
	m := get(owner.AllocPhysical(2 * get(owner.MapUnit())(t)))(t)
	mem := block(t, owner, m)
	ok(t, owner.Fill(mem.Range(0, mem.Len()), 'a'))
	h := get(m.ShareFabric())(t)
	if again := get(m.ShareFabric())(t); again != h {
		t.Errorf("shared again the handle is %v", again)
	}

	var passed struct{ Block ropeway.FabricHandle }
	ok(t, json.Unmarshal(get(json.Marshal(map[string]any{"Block": h}))(t), &passed))
	in := get(user.ImportFabric(t.Context(), passed.Block))(t)
	if in.Len() != m.Len() {
		t.Errorf("%d bytes are imported, want %d", in.Len(), m.Len())
	}
	far := block(t, user, in)
	if !bytes.Equal(content(t, user, far), bytes.Repeat([]byte{'a'}, far.Len())) {
		t.Error("the bytes are others")
	}
	s := get(user.NewStream())(t)
	host, half := get(user.AllocPinned(far.Len()/2))(t), far.Len()/2
	copy(host.Bytes(), bytes.Repeat([]byte{'b'}, half))
	ok(t, s.Copy(far.Range(0, half), host.All()))
	ok(t, s.Fill(far.Range(half, half), 'c'))
	ok(t, s.Synchronize(t.Context()))
	want := append(bytes.Repeat([]byte{'b'}, half), bytes.Repeat([]byte{'c'}, half)...)
	if !bytes.Equal(content(t, owner, mem), want) {
		t.Error("what the other server wrote is not there")
	}
	g := get(s.Capture(func() error { return s.Copy(far.Range(half, half), far.Range(0, half)) }))(t)
	ok(t, g.Run(s))
	ok(t, s.Synchronize(t.Context()))
	ok(t, g.Close())
	if !bytes.Equal(content(t, owner, mem), bytes.Repeat([]byte{'b'}, 2*half)) {
		t.Error("what the graph copied is not there")
	}

	_, err := in.ShareFabric()
	wants(t, err, ropeway.ErrRTDrvInternalError, "aclrtMemExportToShareableHandleV2")
	_, err = m.Share()
	wants(t, err, ropeway.ErrRTDrvInternalError, "aclrtMemExportToShareableHandle")
	ok(t, in.Close())
	ok(t, m.Close())
	_, err = m.ShareFabric()
	wants(t, err, ropeway.ErrRTParamInvalid, "aclrtMemExportToShareableHandleV2")
}

func wants(t testing.TB, err error, code ropeway.Code, api string) {
	t.Helper()
	var e *ropeway.Error
	if !errors.As(err, &e) || e.Code != code || e.API != api {
		t.Errorf("got %v, want %d of %s", err, code, api)
	}
}

// role says to a process of this binary that it is a server of a pod.
const role = "ROPEWAY_GO_POD_TEST"

// serve is a server in a process of its own: for each number that it reads, it shares memory with that process and with
// itself, or with everybody if it is 0.
func serve(in *os.File, out *os.File) {
	err := func() error {
		rt, err := ropeway.Open(options()...) // the variables say which server
		if err != nil {
			return err
		}
		defer rt.Close()
		d, err := rt.Device(0)
		if err != nil {
			return err
		}
		for {
			var pid int
			if _, err := fmt.Fscanln(in, &pid); err != nil {
				return nil
			}
			unit, err := d.MapUnit()
			if err != nil {
				return err
			}
			m, err := d.AllocPhysical(unit)
			if err != nil {
				return err
			}
			with := []int{os.Getpid()}
			if pid == 0 {
				with = nil
			}
			h, err := m.ShareFabric(with...)
			if err == nil && pid != 0 {
				h, err = m.ShareFabric(pid) // on the list, too
			}
			if err != nil {
				return err
			}
			fmt.Fprintln(out, "ok", h)
		}
	}()
	if err != nil {
		fmt.Fprintln(out, "failed", err)
	}
}

// TestOtherProcess: ROPEWAY_POD makes a program that imports the package a server; only processes that are named have
// its memory; a context that has ended ends an import; and when the process is killed, copies fail with the documented
// code.
func TestOtherProcess(t *testing.T) {
	f := file(t)
	cmd := exec.Command(os.Args[0])
	cmd.Env = []string{role + "=1", "ROPEWAY_POD=" + f, "ROPEWAY_POD_SERVER=3"}
	p := testenv.StartProcess(t, cmd)
	d := device(t, f, 4)
	handle := func(pid int) (h ropeway.FabricHandle) {
		t.Helper()
		ok(t, h.UnmarshalText([]byte(strings.TrimSpace(p.Does("%d", pid)))))
		return h
	}
	open, named, others := handle(0), handle(os.Getpid()), handle(os.Getpid()+1)
	_, err := d.ImportFabric(t.Context(), others)
	wants(t, err, ropeway.ErrRTInvalidHandle, "aclrtMemImportFromShareableHandleV2")
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := d.ImportFabric(over, open); !errors.Is(err, context.Canceled) {
		t.Errorf("a context that has ended: %v", err)
	}
	m, second := get(d.ImportFabric(t.Context(), open))(t), get(d.ImportFabric(t.Context(), named))(t)
	mem := block(t, d, m)
	ok(t, d.Fill(mem.Range(0, mem.Len()), 'x'))
	if !bytes.Equal(content(t, d, mem), bytes.Repeat([]byte{'x'}, mem.Len())) {
		t.Error("the bytes are others")
	}
	ok(t, second.Close())

	p.Kill()
	s := get(d.NewStream())(t)
	limit, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	for err = nil; err == nil; { // mapped memory stays until the link has ended
		ok(t, s.Fill(mem.Range(0, mem.Len()), 'y'))
		if err = s.Synchronize(limit); err != nil && !errors.Is(err, ropeway.ErrRTLostHeartbeat) {
			t.Fatalf("the server is gone: %v", err)
		}
	}
	_, err = d.ImportFabric(t.Context(), open)
	wants(t, err, ropeway.ErrRTInvalidHandle, "aclrtMemImportFromShareableHandleV2")
}

// TestKeys: memory and a notify of one server are another's by their keys, if its process is named. Copies and a
// captured graph reach the memory, a record of the notify comes after the copies of its stream, and its owner waits for
// it. Processes that are not named, servers that the pod does not have and lists without a process are refused.
func TestKeys(t *testing.T) {
	f := file(t)
	owner, user := device(t, f, 3), device(t, f, 4)
	var self ropeway.Process
	ok(t, json.Unmarshal(get(json.Marshal(get(pod.Self(user))(t)))(t), &self))
	if want := (ropeway.Process{Server: 4, PID: os.Getpid()}); self != want {
		t.Errorf("it is %v, want %v", self, want)
	}
	const size = 3 << 12
	b := get(owner.Alloc(size))(t)
	ok(t, owner.Fill(b.All(), 'a'))
	n := get(owner.NewNotify())(t)
	other := ropeway.Process{Server: 4, PID: os.Getpid() + 1}
	for _, p := range [][]ropeway.Process{nil, {{Server: -1, PID: 1}}, {{Server: 1 << 10, PID: 1}}, {{Server: 4}}} {
		_, err := b.ShareWith(p...)
		wants(t, err, ropeway.ErrRTParamInvalid, "aclrtIpcMemImportPidInterServer")
		_, err = n.ShareWith(p...)
		wants(t, err, ropeway.ErrRTParamInvalid, "aclrtNotifySetImportPidInterServer")
	}
	_, err := b.ShareWith(other, ropeway.Process{Server: 9, PID: 1})
	wants(t, err, ropeway.ErrRTInvalidHandle, "aclrtIpcMemImportPidInterServer")
	closed := get(b.ShareWith(self))(t)
	ok(t, b.Unshare(closed))
	for _, k := range []ropeway.Key{get(b.ShareWith(other))(t), get(b.Share(os.Getpid()))(t), closed} {
		_, err := user.Import(t.Context(), k, size)
		wants(t, err, ropeway.ErrRTDrvInternalError, "aclrtIpcMemImportByKey")
	}

	far := get(user.Import(t.Context(), get(b.ShareWith(other, self))(t), size))(t)
	sets := get(user.ImportNotify(t.Context(), get(n.ShareWith(other, self))(t)))(t)
	got := make([]byte, size)
	ok(t, user.Copy(ropeway.Pageable(got), far.All()))
	if !bytes.Equal(got, bytes.Repeat([]byte{'a'}, size)) {
		t.Error("the bytes are others")
	}
	here, there := get(owner.NewStream())(t), get(user.NewStream())(t)
	host := get(owner.AllocPinned(size))(t)
	write := func(c byte) error {
		return errors.Join(there.Fill(far.All(), c), there.RecordNotify(sets))
	}
	g := get(there.Capture(func() error { return write('c') }))(t)
	for i, begin := range []func() error{func() error { return write('b') }, func() error { return g.Run(there) }} {
		ok(t, here.WaitNotify(n, 0)) // before it is recorded
		ok(t, here.Copy(host.All(), b.All()))
		ok(t, begin())
		ok(t, here.Synchronize(t.Context()))
		if want := bytes.Repeat([]byte{'b' + byte(i)}, size); !bytes.Equal(host.Bytes(), want) {
			t.Errorf("after record %d the owner reads %q", i, host.Bytes()[:8])
		}
		ok(t, there.Synchronize(t.Context()))
	}
	ok(t, g.Close())
	ok(t, sets.Close())
	ok(t, far.Close())
	ok(t, b.Close())
	_, err = b.ShareWith(self)
	wants(t, err, ropeway.ErrRTParamInvalid, "aclrtIpcMemGetExportKey")
}

// TestOptions: a file that is wrong is refused by option and by variable; an option comes before the variables; "" is
// no pod; and a pod is not used, with a warning, on a product without links to others.
func TestOptions(t *testing.T) {
	f := file(t)
	t.Setenv("ROPEWAY_POD", filepath.Join(t.TempDir(), "missing.yaml"))
	t.Setenv("ROPEWAY_POD_SERVER", "4")
	for name, opts := range map[string][]ropeway.Option{
		"variable": nil, "missing": {pod.With("missing.yaml")}, "no such server": {pod.WithServer(f, 9)},
	} {
		rt, err := ropeway.Open(options(opts...)...)
		if err == nil {
			rt.Close()
		}
		if !errors.Is(err, ropeway.ErrInvalidParam) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for want, opt := range map[int]ropeway.Option{4: pod.With(f), 3: pod.WithServer(f, 3), 0: pod.With("")} {
		rt := get(ropeway.Open(options(opt)...))(t)
		if n, err := pod.Server(get(rt.Device(0))(t)); n != want || err != nil {
			t.Errorf("server %d, %v; want %d", n, err, want)
		}
		ok(t, rt.Close())
	}
	var warned bytes.Buffer
	rt := get(ropeway.Open(pod.With(f), ropeway.WithProduct(ropeway.ProductA2, ropeway.EP), ropeway.WithDevices(1),
		ropeway.WithLogger(slog.New(slog.NewTextHandler(&warned, nil)))))(t)
	defer rt.Close()
	if !strings.Contains(warned.String(), "A2 has no links to other servers") {
		t.Errorf("an A2 warns %q", &warned)
	}
	m := get(get(rt.Device(0))(t).AllocPhysical(2 << 20))(t)
	_, err := m.ShareFabric()
	wants(t, err, ropeway.ErrRTFeatureNotSupport, "aclrtMemExportToShareableHandleV2")
}

// TestHandleText: text that is no handle is refused, and leaves the handle as it was.
func TestHandleText(t *testing.T) {
	was := ropeway.FabricHandle{1, 2, 127: 3}
	for _, text := range []string{"", "00", strings.Repeat("0", 255), strings.Repeat("x", 256), was.String() + "0"} {
		h := was
		if err := h.UnmarshalText([]byte(text)); err == nil || h != was {
			t.Errorf("%q is read as %v, %v", text, h, err)
		}
	}
	var h ropeway.FabricHandle
	if ok(t, h.UnmarshalText([]byte(was.String()))); h != was {
		t.Errorf("%v is read as %v", was, h)
	}
}
