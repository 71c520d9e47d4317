package meter

import "sync/atomic"

// flight is a table of the tasks in flight, with the work and the submission time of each. It has a fixed size: of a
// task that does not fit, only begin and end are counted.
type flight struct{ slots [slots]slot }

const (
	slots = 1 << 15 // a power of two
	near  = 8       // slots of a task at its home
	far   = 8       // slots of a task elsewhere; a power of two
)

type slot struct {
	key   atomic.Uint64 // 0: free
	value atomic.Uint64
}

// flying is the entry of a task: its work, and the lower bits of its submission time.
type flying uint64

const workBits = 4

func entry(w Work, submit int64) flying { return flying(uint64(submit)<<workBits | uint64(w)) }

func (e flying) work() Work { return Work(e & (1<<workBits - 1)) }

// submit returns the submission time of the task; after is a later time.
func (e flying) submit(after int64) int64 {
	ago := (uint64(after)<<workBits - uint64(e&^(1<<workBits-1))) >> workBits
	if ago > 1<<(63-workBits) {
		return after // clocks of several processors may disagree by a little
	}
	return after - int64(ago)
}

// keyOf returns the key of a task, never 0, and its home slot. Successive tasks of a stream have neighbouring homes,
// and different streams distant ones.
func keyOf(stream int32, number uint32) (key uint64, home uint32) {
	return uint64(uint32(stream)+2)<<32 | uint64(number), uint32(stream)*2654435769 + number
}

// place returns the i-th slot in which a task can be: first the slots at its home, then slots all over the table,
// because where streams collide the home may be full while most of the table is free.
func (f *flight) place(key uint64, home, i uint32) *slot {
	if i >= near {
		home, i = uint32(key*0x9E3779B97F4A7C15>>49), i*(slots/far)
	}
	return &f.slots[(home+i)&(slots-1)]
}

// put adds a task and reports whether there was room. take of the same task must not run before put has returned.
func (f *flight) put(stream int32, number uint32, e flying) bool {
	key, home := keyOf(stream, number)
	for i := range uint32(near + far) {
		s := f.place(key, home, i)
		if s.key.Load() == 0 && s.key.CompareAndSwap(0, key) {
			s.value.Store(uint64(e))
			return true
		}
	}
	return false
}

// take removes the task and returns its entry.
func (f *flight) take(stream int32, number uint32) (flying, bool) {
	key, home := keyOf(stream, number)
	for i := range uint32(near + far) {
		s := f.place(key, home, i)
		if s.key.Load() == key {
			e := flying(s.value.Load())
			s.key.Store(0)
			return e, true
		}
	}
	return 0, false
}
