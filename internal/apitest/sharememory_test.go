package apitest

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"ropeway"
)

// mapped is memory at an address.
func mapped(t *testing.T, d *ropeway.Device, m *ropeway.Physical) ropeway.Span {
	t.Helper()
	r := get(d.Reserve(m.Len()))(t)
	t.Cleanup(func() { ok(t, r.Close()) })
	ok(t, r.Map(0, m))
	return r.Range(0, m.Len())
}

// TestShareMemory: another process maps the same memory, unless it is not on the list, and an event of both orders
// the two in either direction.
func TestShareMemory(t *testing.T) {
	d := device(t)
	s, unit := get(d.NewStream())(t), get(d.MapUnit())(t)
	m, private := get(d.AllocPhysical(2*unit))(t), get(d.AllocPhysical(unit))(t)
	mem, e, bell := mapped(t, d, m), get(d.NewSharedEvent())(t), get(d.NewNotify())(t)
	pid, keys, finish := visitor(t, "TestMemoryVisitor")
	key := get(m.Share(os.Getpid()))(t)
	if again := get(m.Share(pid))(t); again != key {
		t.Errorf("shared again the key is %s, not %s", again, key)
	}
	ok(t, s.WaitNotify(bell, 0))
	ok(t, s.Fill(mem, 'a'))
	ok(t, s.Record(e))
	fmt.Fprintln(keys, key, get(private.Share(os.Getpid()))(t), get(e.Share())(t), get(bell.Share(pid))(t))
	finish()
	ok(t, s.Wait(e)) // the record of the other process
	ok(t, e.Wait(ctx))
	host := make([]byte, mem.Len())
	ok(t, d.Copy(ropeway.Pageable(host), mem))
	if !bytes.Equal(host, bytes.Repeat([]byte{'b'}, len(host))) {
		t.Error("what the other process wrote is not there")
	}
	ok(t, s.Synchronize(ctx))
	ok(t, e.Close())
	ok(t, m.Close())
	_, err := m.Share() // also while it is mapped
	want(t, err, ropeway.ErrRTParamInvalid, "aclrtMemExportToShareableHandle", "handle")
}

// TestMemoryVisitor is the other process of TestShareMemory.
func TestMemoryVisitor(t *testing.T) {
	if os.Getenv(visitorEnv) == "" {
		t.Skip("TestShareMemory runs it, in a process of its own")
	}
	var key, private, event, bell ropeway.Key
	if _, err := fmt.Fscanln(bufio.NewReader(os.Stdin), &key, &private, &event, &bell); err != nil {
		t.Fatal(err)
	}
	d := device(t)
	s, rings := get(d.NewStream())(t), get(d.NewStream())(t)
	m, e, n := get(d.ImportPhysical(ctx, key))(t), get(d.ImportEvent(ctx, event))(t), get(d.ImportNotify(ctx, bell))(t)
	if unit := get(d.MapUnit())(t); m.Len() != 2*unit {
		t.Errorf("the memory has %d bytes, want %d", m.Len(), 2*unit)
	}
	_, err := d.ImportPhysical(ctx, private)
	want(t, err, ropeway.ErrRTDrvInternalError, "aclrtMemImportFromShareableHandle", "shareableHandle")
	_, err = m.Share()
	want(t, err, ropeway.ErrRTDrvInternalError, "aclrtMemExportToShareableHandle", "handle")

	mem, host := mapped(t, d, m), get(d.AllocPinned(m.Len()))(t)
	ok(t, m.Close()) // stays where it is mapped
	ok(t, s.Wait(e))
	ok(t, s.Copy(host.All(), mem))
	if get(s.Idle())(t) || get(e.Done())(t) {
		t.Error("the record of the other process counts before it has run")
	}
	ok(t, rings.RecordNotify(n)) // lets it run
	ok(t, s.Synchronize(ctx))
	if !bytes.Equal(host.Bytes(), bytes.Repeat([]byte{'a'}, host.Len())) {
		t.Error("the bytes are others")
	}
	ok(t, s.Fill(mem, 'b'))
	ok(t, s.Record(e))
	ok(t, s.Synchronize(ctx))
	ok(t, n.Close())
	ok(t, e.Close())
}

// TestShareMemoryRefusals: keys that are none, processes that are none, and things that are not for others.
func TestShareMemoryRefusals(t *testing.T) {
	const importing, opening = "aclrtMemImportFromShareableHandle", "aclrtIpcOpenEventHandle"
	d := device(t)
	for _, key := range []ropeway.Key{"", "x", "1234", ropeway.Key(strings.Repeat("0", 128)),
		ropeway.Key(strings.Repeat("k", 1000))} {
		if _, err := d.ImportPhysical(ctx, key); err == nil {
			t.Errorf("key %q names memory", key)
		}
		_, err := d.ImportEvent(ctx, key)
		want(t, err, ropeway.ErrRTParamInvalid, opening, "handle")
	}
	m := get(d.AllocPhysical(get(d.MapUnit())(t)))(t)
	_, err := m.Share(0)
	want(t, err, ropeway.ErrRTParamInvalid, "aclrtMemSetPidToShareableHandle", "pid")
	_, err = d.ImportPhysical(ctx, get(m.Share())(t)) // this process has it already
	want(t, err, ropeway.ErrRTDrvInternalError, importing, "shareableHandle")

	own, e := get(d.NewEvent())(t), get(d.NewSharedEvent())(t)
	_, err = own.Share()
	want(t, err, ropeway.ErrRTParamInvalid, "aclrtIpcGetEventHandle", "event")
	key := get(e.Share())(t)
	if again := get(e.Share())(t); again != key {
		t.Errorf("an event has two keys: %s and %s", key, again)
	}
	_, err = ropeway.Elapsed(e, e)
	want(t, err, ropeway.ErrRTFeatureNotSupport, "aclrtEventElapsedTime", "*")
	ok(t, e.Close())
	_, err = d.ImportEvent(ctx, key)
	want(t, err, ropeway.ErrRTParamInvalid, opening, "handle")
	_, err = device(t, ropeway.WithProduct(ropeway.Product310P, ropeway.EP)).NewSharedEvent()
	want(t, err, ropeway.ErrRTFeatureNotSupport, "aclrtCreateEventExWithFlag", "*")
}
