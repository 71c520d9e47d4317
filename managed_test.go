package ropeway_test

import (
	"testing"

	"ropeway"
)

// TestManaged: the host and the device use the same bytes at one address.
func TestManaged(t *testing.T) {
	d := device(t)
	s := get(d.NewStream())(t)
	b, mem := get(d.AllocManaged(100))(t), get(d.Alloc(100))(t)
	if b.OnDevice() || len(b.Bytes()) != 100 {
		t.Errorf("on the device %t, %d bytes", b.OnDevice(), len(b.Bytes()))
	}
	copy(b.Bytes(), "written by the host")
	ok(t, d.Advise(b.All(), ropeway.Prefer, d))
	ok(t, d.Advise(b.All(), ropeway.ReadMostly, nil))
	ok(t, s.Prefetch(b.All(), d))
	ok(t, s.Copy(mem.All(), b.All()))
	ok(t, s.Fill(b.At(0, 8), 'x'))
	ok(t, s.Copy(b.At(8, 92), mem.At(0, 92)))
	ok(t, s.Prefetch(b.All(), nil))
	ok(t, s.Synchronize(ctx))
	if got := string(b.Bytes()[:27]); got != "xxxxxxxxwritten by the host" {
		t.Errorf("got %q", got)
	}
	want(t, d.Advise(mem.All(), ropeway.Prefer, d), ropeway.ErrRTParamInvalid, "aclrtMemManagedAdvise", "*")
	want(t, d.Advise(b.All(), 99, d), ropeway.ErrRTParamInvalid, "aclrtMemManagedAdvise", "*")
	other := device(t)
	want(t, s.Prefetch(b.All(), other), ropeway.ErrRTParamInvalid, "aclrtMemManagedPrefetchAsync", "location")
	want(t, other.Advise(b.All(), ropeway.Prefer, nil), ropeway.ErrRTParamInvalid, "aclrtMemManagedAdvise", "ptr")
	ok(t, b.Free())
	want(t, s.Prefetch(b.All(), d), ropeway.ErrRTParamInvalid, "aclrtMemManagedPrefetchAsync", "ptr")
	_, err := device(t, ropeway.WithProduct("950", "EP")).AllocManaged(8)
	want(t, err, ropeway.ErrRTFeatureNotSupport, "aclrtMemAllocManaged", "*")
}
