package observe

// Kinds, Directions and Memories name the values of their types, in order.
var (
	Kinds = []string{"copy", "2D copy", "batch", "descriptor copy", "fill", "record", "wait", "function", "other",
		"notify record", "notify wait", "value write", "value wait", "reduce", "random", "prefetch", "mark", "kernel",
		"model"}
	Directions = []string{"", "host to device", "device to host", "device to device", "host to host",
		"to another device", "both ways"}
	Memories = []string{"", "pinned", "registered", "pageable", "mixed", "managed"}
)

func (k Kind) String() string      { return name(Kinds, int(k)) }
func (d Direction) String() string { return name(Directions, int(d)) }
func (m Memory) String() string    { return name(Memories, int(m)) }

// name returns the name of a value, or "unknown": files of a newer recorder may have more values.
func name(of []string, value int) string {
	if value < len(of) {
		return of[value]
	}
	return "unknown"
}

// Records reports whether tasks of this kind signal an event that tasks with Waits wait for; both have the same
// Event.
func (k Kind) Records() bool { return k == Record || k == NotifyRecord || k == ValueWrite }

// Waits reports whether tasks of this kind block their stream until another task has recorded.
func (k Kind) Waits() bool { return k == Wait || k == NotifyWait || k == ValueWait }

// Copies reports whether tasks of this kind move bytes between memories.
func (k Kind) Copies() bool { return k <= Descriptor }
