package cuda

// bell tells who waits that a stream has come to a place: there the GPU writes a number to pinned memory, which is seen half a microsecond
// before CUDA would say so. Putting it on the stream takes one or two, while the copies are on their way: so it is for copies of some length.
//
// It belongs to its stream, and who uses the stream uses the bell.
type bell struct {
	word   uintptr // pinned
	number uint32  // the last that was put on the stream
	dead   bool    // libcuda cannot, or the GPU is lost
}

const (
	bellFrom  = 32 << 10 // bytes on a stream that are worth a bell
	bellBytes = 64       // bells are so far apart: each has a line of the cache to itself
	bellBlock = 4096
)

// bellOf is the bell of a stream; a dead one if there is no memory.
func (c *card) bellOf(stream uintptr) *bell {
	c.mu.Lock()
	defer c.mu.Unlock()
	if b := c.bells[stream]; b != nil {
		return b
	}
	if len(c.bellWords) == 0 {
		c.enter()
		c.bellWords = c.cutBlock(bellBlock, bellBytes)
		c.leave()
	}
	if len(c.bellWords) == 0 {
		return &bell{dead: true}
	}
	last := len(c.bellWords) - 1
	b := &bell{word: c.bellWords[last]}
	c.bellWords = c.bellWords[:last]
	if c.bells == nil {
		c.bells = map[uintptr]*bell{}
	}
	c.bells[stream] = b
	return b
}

// ring lets the bell ring when all that is on its stream now is over. It tells whether it will.
func (b *bell) ring(c *card, stream uintptr) bool {
	if b.dead {
		return false
	}
	b.dead = c.look(stream, func(stream uintptr) result { return c.d.lib.writeValue(stream, b.word, b.number+1) }) != success
	if !b.dead {
		b.number++
	}
	return !b.dead
}

// hears listens for a moment, and tells whether the bell has rung for the number.
func (b *bell) hears(number uint32) bool {
	for range 32 {
		if int32(wordAt(b.word).Load()-number) >= 0 {
			return true
		}
	}
	return false
}

// listening is how often CUDA itself is asked while somebody listens for a bell: of a GPU that is lost it never rings.
const listening = 64
