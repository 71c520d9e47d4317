package conformance

import (
	"errors"
	"fmt"
	"testing"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/transfer"
	"ropeway/internal/driver/faulty"
)

// What becomes of an asynchronous copy. Everything else is the code of its refusal.
const (
	queued = "queued" // it runs on the stream
	now    = "now"    // it was made before the call returned
	late   = "late"   // it runs on the stream and fails there: 507013
	no     = "107000"
	never  = "207000"
)

// withoutHostKind is a table for products that refuse ACL_MEMCPY_HOST_TO_HOST whatever the addresses are.
func (t directions) withoutHostKind() directions {
	var changed directions
	for _, row := range t {
		row.want = append([]string{never}, row.want[1:]...)
		changed = append(changed, row)
	}
	return changed
}

// directions is a table of what becomes of copies from one place to another, by kind from HOST_TO_HOST on.
type directions []struct {
	from, to where
	want     []string
}

// inEP is spec/semantics.md, section 12, the direction table. A pinned or pageable end that the kind calls device
// memory is taken at its word, and then the device cannot reach it. Host to host by another name is made on the host.
var inEP = directions{
	//                  H2H     H2D     D2H     D2D     DEFAULT
	{dev, dev, []string{queued, queued, queued, queued, queued}},
	{dev, host, []string{queued, queued, queued, queued, queued}},
	{host, dev, []string{queued, queued, queued, queued, queued}},
	{host, host, []string{never, never, never, never, never}},
	{unreg, dev, []string{no, now, no, late, now}},
	{dev, unreg, []string{no, no, now, late, now}},
	{host, unreg, []string{never, late, no, no, never}},
	{unreg, host, []string{never, no, late, no, never}},
	{unreg, unreg, []string{never, now, now, late, never}},
}

// on310 is the same for the 310 in EP form: what it cannot do it finds out when the copy runs.
var on310 = directions{
	{dev, dev, []string{late, queued, queued, queued, queued}},
	{dev, host, []string{late, queued, queued, queued, queued}},
	{host, dev, []string{late, queued, queued, queued, queued}},
	{host, host, []string{late, late, late, late, late}},
	{unreg, dev, []string{late, late, no, late, late}},
	{dev, unreg, []string{late, no, late, late, late}},
	{host, unreg, []string{late, late, no, no, late}},
	{unreg, host, []string{late, no, late, no, late}},
	{unreg, unreg, []string{late, late, late, late, late}},
}

// inRC is RC form: host and device are one, kinds are not corrected, and only a pageable side with a kind other than
// H2H and D2D is copied before the call returns.
var inRC = directions{
	//                  H2H     H2D     D2H     D2D     DEFAULT H2BUF2D
	{dev, dev, []string{queued, queued, queued, queued, queued, queued}},
	{dev, host, []string{queued, queued, queued, queued, queued, queued}},
	{host, dev, []string{queued, queued, queued, queued, queued, queued}},
	{host, host, []string{queued, queued, queued, queued, queued, queued}},
	{unreg, dev, []string{queued, now, now, queued, now, now}},
	{dev, unreg, []string{queued, now, now, queued, now, now}},
	{host, unreg, []string{queued, now, now, queued, now, now}},
	{unreg, host, []string{queued, now, now, queued, now, now}},
	{unreg, unreg, []string{queued, now, now, queued, now, now}},
}

// becomes makes a copy of 64 bytes between others that must not change, and says what became of it.
func becomes(e *env, call copyCall, from, to where, kind abi.MemcpyKind, stream core.Handle) string {
	e.Helper()
	const n, edge = 64, 64
	old, data := noise(n+2*edge, 1), noise(n+2*edge, 2)
	src, dst := e.memory(from, n+2*edge), e.memory(to, n+2*edge)
	e.write(src, data)
	e.write(dst, old)
	a := &copyArgs{th: e.th, dst: dst + edge, destMax: n, src: src + edge, count: n, kind: kind, stream: stream}

	// A copy that is made in the call runs into this, one that is queued does not.
	e.faults.Fail(faulty.Run, 1, errors.New("made in the call"))
	err := call(e, a)
	e.faults.Heal()
	became := queued
	if codeOf(err) == abi.ErrRTDrvInternalError {
		became, err = now, call(e, a)
	}
	if err != nil {
		e.holds(dst, old)
		return fmt.Sprint(int32(err.Code))
	}
	if err := e.th.SynchronizeStream(stream); err != nil {
		e.want(err, abi.ErrRTSysDma)
		e.ok(e.th.SynchronizeStream(stream))
		e.holds(dst, old)
		return late
	}
	copy(old[edge:], data[edge:edge+n])
	e.holds(dst, old)
	e.holds(src, data)
	return became
}

// follows checks a table, for the kinds from first on.
func follows(e *env, table directions, first abi.MemcpyKind, call copyCall) {
	e.Helper()
	s := e.stream()
	for _, row := range table {
		for i, want := range row.want {
			kind := abi.MemcpyKind(i)
			if kind < first {
				continue
			}
			if got := becomes(e, call, row.from, row.to, kind, s); got != want {
				e.Errorf("%s → %s, %v: %s, want %s", row.from, row.to, kind, got, want)
			}
		}
	}
}

func TestDirections(t *testing.T) {
	ep := func(product string) machine { return machine{product: product, form: "EP"} }
	rc := func(product string) machine { return machine{product: product, form: "RC"} }
	for _, tt := range []struct {
		machine
		table directions
	}{
		{ep("A2"), inEP.withoutHostKind()}, {ep("A3"), inEP.withoutHostKind()}, {ep("950"), inEP}, {ep("310B"), inEP},
		{ep("310P"), inEP}, {ep("910"), inEP}, {ep("310"), on310},
		{machine{product: "310", form: "EP", strict: true}, on310},
		{rc("310B"), inRC}, {rc("310P"), inRC}, {rc("310"), inRC},
	} {
		top := fmt.Sprintf("%s/%s/strict=%t/", tt.product, tt.form, tt.strict)
		for name, call := range map[string]copyCall{"aclrtMemcpyAsync": memcpyAsync,
			"aclrtMemcpyAsyncWithCondition": memcpyAsyncWithCondition} {
			t.Run(top+name, func(t *testing.T) { follows(newEnv(t, tt.machine), tt.table, h2h, call) })
		}
		t.Run(top+"aclrtMemcpy2dAsync", func(t *testing.T) {
			table := tt.table.flat(tt.form == "RC")
			if tt.strict {
				// Copies within a device are refused (rule 20 of aclrtMemcpy2dAsync).
				table = directions{{unreg, dev, []string{late, late}}, {dev, unreg, []string{late, no, late}}}
			}
			follows(newEnv(t, tt.machine), table, h2d, memcpy2dAsync)
		})
	}
}

// flat is the table for 2-D copies: they do not exist in RC form, and what turns out to be host to host is 107000.
func (t directions) flat(rc bool) directions {
	var changed directions
	for _, row := range t {
		want := append([]string(nil), row.want[:dflt+1]...)
		for kind := range want {
			hosts := row.from != dev && row.to != dev && (abi.MemcpyKind(kind) == dflt || row.from == host &&
				row.to == host)
			switch {
			case rc:
				want[kind] = never
			case hosts:
				want[kind] = no
			}
		}
		row.want = want
		changed = append(changed, row)
	}
	return changed
}

// memcpy2dAsync copies 64 bytes as four rows.
func memcpy2dAsync(_ *env, a *copyArgs) *core.Error {
	return transfer.Memcpy2dAsync(a.th, a.dst, 16, a.src, 16, 16, 4, a.kind, a.stream)
}

// TestToItself checks that a copy onto itself is a success, once the direction is allowed.
func TestToItself(t *testing.T) {
	for _, tt := range []struct {
		product, form string
		w             where
		kind          abi.MemcpyKind
		want          abi.Code
	}{
		{"A2", "EP", dev, d2d, abi.Success}, {"A2", "EP", dev, h2h, abi.ErrRTFeatureNotSupport}, {"950", "EP", dev, h2h,
			abi.Success}, {"A2", "EP", host, dflt, abi.ErrRTFeatureNotSupport},
		{"A2", "EP", unreg, h2d, abi.Success}, {"A2", "EP", unreg, d2d, abi.Success}, {"A2", "EP", unreg, dflt,
			abi.ErrRTFeatureNotSupport},
		{"310", "EP", host, dflt, abi.Success}, {"310", "EP", unreg, h2d, abi.Success},
		{"310B", "RC", dev, h2d, abi.Success}, {"310B", "RC", unreg, h2d, abi.Success}, {"310B", "RC", unreg, d2d,
			abi.Success},
	} {
		t.Run(fmt.Sprintf("%s/%s/%s/%v", tt.product, tt.form, tt.w, tt.kind), func(t *testing.T) {
			e := newEnv(t, machine{product: tt.product, form: tt.form})
			p := e.memory(tt.w, 64)
			e.write(p, noise(64, 1))
			e.faults.FailAll(faulty.Task, errors.New("something was queued"))
			e.faults.FailAll(faulty.Run, errors.New("something was copied"))
			s := e.foreign() // not looked at
			if err := transfer.MemcpyAsync(e.th, p, 64, p, 64, tt.kind, s); codeOf(err) != tt.want {
				t.Errorf("got %v, want %d", err, tt.want)
			}
			e.faults.Heal()
			e.ok(e.th.SynchronizeStream(s))
			e.holds(p, noise(64, 1))
		})
	}
}

// TestSynchronousDirections checks that aclrtMemcpy follows the addresses, whatever kind says, in every form.
func TestSynchronousDirections(t *testing.T) {
	for _, m := range []machine{{}, {product: "310"}, {product: "310B", form: "RC"}, {product: "310P", form: "RC"}} {
		t.Run(m.product+m.form, func(t *testing.T) {
			e := newEnv(t, m)
			s := e.stream()
			for _, from := range []where{dev, host, unreg} {
				for _, to := range []where{dev, host, unreg} {
					for kind := h2h; kind <= buf; kind++ {
						if got := becomes(e, memcpy, from, to, kind, s); got != now {
							e.Errorf("%s → %s, %v: %s", from, to, kind, got)
						}
					}
				}
			}
		})
	}
}

// TestBuffered checks which copies ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE makes in EP form.
func TestBuffered(t *testing.T) {
	for _, p := range []string{"A2", "950", "310P", "310"} {
		e := newEnv(t, machine{product: p})
		s := e.stream()
		for _, from := range []where{dev, host, unreg} {
			for _, to := range []where{dev, host, unreg} {
				want := no
				if from != dev && to == dev {
					want = now // the part that needs the host
				}
				if got := becomes(e, memcpyAsync, from, to, buf, s); got != want {
					t.Errorf("%s: %s → %s: %s, want %s", p, from, to, got, want)
				}
			}
		}
	}
}
