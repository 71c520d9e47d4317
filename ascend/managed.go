package ascend

import (
	"ropeway"
	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/memory"
	"ropeway/internal/goapi"
)

// Advice tells how a program will use managed memory ([ropeway.Device.AllocManaged]). It affects speed, never results.
type Advice int32

// Kinds of advice.
const (
	ReadMostly    Advice = Advice(abi.MemAdviseSetReadMostly)        // it is mostly read
	NotReadMostly Advice = Advice(abi.MemAdviseUnsetReadMostly)      // undoes ReadMostly
	Prefer        Advice = Advice(abi.MemAdviseSetPreferredLocation) // it should be in the memory of the given
	// device or the host
	NotPrefer     Advice = Advice(abi.MemAdviseUnsetPreferredLocation) // undoes Prefer
	AccessedBy    Advice = Advice(abi.MemAdviseSetAccessedBy)          // the given device will use it
	NotAccessedBy Advice = Advice(abi.MemAdviseUnsetAccessedBy)        // undoes AccessedBy
)

// Advise gives advice about the use of managed memory at a device or, for nil, the host. The call is made on d.
func Advise(d *ropeway.Device, mem ropeway.Span, a Advice, at *ropeway.Device) error {
	const api = "aclrtMemManagedAdvise"
	t, _ := goapi.Device(d)
	addr, location, err := managed(t, api, mem, at)
	if err != nil {
		return err
	}
	return goapi.Result(t, memory.MemManagedAdvise(t, addr, uint64(mem.Len()), abi.MemManagedAdviseType(a), location))
}

// Prefetch queues moving managed memory to a device or, for nil, to the host, before it is needed there.
func Prefetch(s *ropeway.Stream, mem ropeway.Span, to *ropeway.Device) error {
	q := on(s, "aclrtMemManagedPrefetchAsync")
	addr, location, err := managed(q.t, q.api, mem, to)
	if err != nil {
		return err
	}
	return q.result(memory.MemManagedPrefetchAsync(q.t, addr, uint64(mem.Len()), location, 0, q.h))
}

// managed returns the address of the memory, and the location of a device, or of the host for nil.
func managed(t *core.Thread, api string, mem ropeway.Span, at *ropeway.Device) (
	core.Addr, abi.MemManagedLocation, error,
) {
	location := abi.MemManagedLocation{Type: abi.MemManagedLocationTypeHost}
	if at != nil {
		other, id := goapi.Device(at)
		if other.Runtime != t.Runtime {
			return 0, location, misuse(api, "location", otherRuntime)
		}
		location = abi.MemManagedLocation{Type: abi.MemManagedLocationTypeDevice, ID: int32(id)}
	}
	p, err := addr(t, api, "ptr", mem)
	return p, location, err
}
