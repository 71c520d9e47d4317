package core_test

import (
	"sync"
	"testing"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/memory"
	"ropeway/internal/driver"
	"ropeway/internal/driver/soft"
	"ropeway/internal/product"
	"ropeway/internal/testenv"
)

// TestPoolDroppedWait proves that a wait for an event that is dropped before the call that submitted it returns does
// not count: memory that another stream frees before the event stays with that stream.
func TestPoolDroppedWait(t *testing.T) {
	for name, drop := range map[string]func(th *core.Thread, s core.Handle) *core.Error{
		"aborted":     (*core.Thread).StreamAbort,
		"stopped":     (*core.Thread).StreamStop,
		"not dropped": nil,
	} {
		t.Run(name, func(t *testing.T) {
			soft, err := soft.New(soft.Options{Devices: 1, Memory: 64 << 20})
			testenv.OK(t, err)
			d := &slowDriver{Driver: soft}
			p, _ := product.Find("A2", "")
			rt := core.New(core.Options{Driver: d, Product: p})
			defer rt.Close() //nolint:errcheck // the test is over
			th, other := in(t, rt, 1), in(t, rt, 2)
			var pool, held, s, ev core.Handle
			must(t, memory.MemPoolCreate(th, &pool,
				&abi.MemPoolProps{Location: abi.MemLocation{Type: abi.MemLocationTypeDevice}, MaxSize: 32 << 20}))
			must(t, memory.MemPoolSetAttr(th, pool, abi.MemPoolReuseFollowEventDependencies,
				core.AddrOf([]byte{1, 0, 0, 0})))
			must(t, th.CreateStream(&held))
			must(t, th.CreateStream(&s))
			must(t, th.CreateEvent(&ev))
			goOn := make(chan struct{})
			release := sync.OnceFunc(func() { close(goOn) })
			defer release()
			var first, second core.Addr
			must(t, memory.MemPoolMallocAsync(th, &first, 2<<20, pool, held))
			must(t, th.LaunchHostFunc(held, func(core.Addr) { <-goOn }, 0)) // which uses the memory
			must(t, memory.MemPoolFreeAsync(th, first, held))
			must(t, th.RecordEvent(ev, held))
			d.after = func(op *driver.Op) {
				if op.Kind == driver.OpAwait && drop != nil {
					d.after = nil
					must(t, drop(other, s))
				}
			}
			must(t, th.StreamWaitEvent(s, ev))
			must(t, memory.MemPoolMallocAsync(th, &second, 2<<20, pool, s))
			if got, want := second == first, drop == nil; got != want {
				t.Errorf("the stream got the memory that another uses: %v, want %v", got, want)
			}
			release()
		})
	}
}
