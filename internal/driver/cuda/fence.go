package cuda

// fence wakes a waiting goroutine when a stream has reached a point: there the GPU writes a number to pinned memory,
// which is seen half a microsecond before CUDA reports it. Putting it on the stream takes one or two microseconds,
// while the copies run, so it is used only for longer copies.
//
// It belongs to its stream, and the goroutine that uses the stream uses the fence.
type fence struct {
	word   uintptr // pinned
	number uint32  // the last that was put on the stream
	dead   bool    // libcuda cannot, or the GPU is lost
}

const (
	fenceFrom  = 32 << 10 // bytes on a stream that are worth a fence
	fenceBytes = 64       // fences are so far apart: each has a line of the cache to itself
	fenceBlock = 4096
)

// fenceOf is the fence of a stream; a dead one if there is no memory.
func (c *gpu) fenceOf(stream uintptr) *fence {
	c.mu.Lock()
	defer c.mu.Unlock()
	if b := c.fences[stream]; b != nil {
		return b
	}
	if len(c.fenceWords) == 0 {
		c.enter()
		c.fenceWords = c.cutBlock(fenceBlock, fenceBytes)
		c.leave()
	}
	if len(c.fenceWords) == 0 {
		return &fence{dead: true}
	}
	last := len(c.fenceWords) - 1
	b := &fence{word: c.fenceWords[last]}
	c.fenceWords = c.fenceWords[:last]
	if c.fences == nil {
		c.fences = map[uintptr]*fence{}
	}
	c.fences[stream] = b
	return b
}

// put puts the next number on the stream, after all that is there now. It reports whether that went well.
func (f *fence) put(c *gpu, stream uintptr) bool {
	if f.dead {
		return false
	}
	f.dead = c.look(stream, func(stream uintptr) result {
		return c.d.lib.writeValue(stream, f.word,
			f.number+1)
	}) != success
	if !f.dead {
		f.number++
	}
	return !f.dead
}

// passed looks for a moment, and reports whether the stream has passed the number.
func (f *fence) passed(number uint32) bool {
	for range 32 {
		if int32(wordAt(f.word).Load()-number) >= 0 {
			return true
		}
	}
	return false
}

// askEvery is how often CUDA itself is asked while a goroutine looks at a fence: a GPU that is lost never passes it.
const askEvery = 64
