package gpu

import "ropeway/internal/driver/cuda/libcuda"

// Fence shows a polling goroutine that a stream has reached a point: there the GPU writes a number to pinned memory,
// which is visible half a microsecond before CUDA reports the end. Putting the fence on the stream takes one or two
// microseconds, while the copies run, so it is used only for longer copies.
//
// The goroutine that owns the stream owns the fence.
type Fence struct {
	word   uintptr // pinned
	Number uint32  // the last one put on the stream
	dead   bool    // libcuda has no fences, or the GPU is lost
}

const (
	fenceBytes = 64 // distance of fences: each has a cache line of its own
	fenceBlock = 4096
)

// FenceOf returns the fence of a stream; a dead one if there is no memory.
func (c *GPU) FenceOf(stream uintptr) *Fence {
	c.mu.Lock()
	defer c.mu.Unlock()
	if b := c.fences[stream]; b != nil {
		return b
	}
	if len(c.fenceWords) == 0 {
		c.Enter()
		c.fenceWords = c.keepWordsLocked(fenceBlock, fenceBytes)
		c.Leave()
	}
	if len(c.fenceWords) == 0 {
		return &Fence{dead: true}
	}
	last := len(c.fenceWords) - 1
	b := &Fence{word: c.fenceWords[last]}
	c.fenceWords = c.fenceWords[:last]
	if c.fences == nil {
		c.fences = map[uintptr]*Fence{}
	}
	c.fences[stream] = b
	return b
}

// Put puts the next number on the stream, and reports whether it could.
func (f *Fence) Put(c *GPU, stream uintptr) bool {
	if f.dead {
		return false
	}
	f.dead = c.look(stream, func(stream uintptr) libcuda.Result {
		return c.lib.StreamWriteValue(stream, f.word, f.Number+1)
	}) != libcuda.Success
	if !f.dead {
		f.Number++
	}
	return !f.dead
}

// Passed polls for a moment, and reports whether the stream has passed the number.
func (f *Fence) Passed(number uint32) bool {
	for range 32 {
		if int32(WordAt(f.word).Load()-number) >= 0 {
			return true
		}
	}
	return false
}
