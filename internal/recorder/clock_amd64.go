package recorder

import (
	"os"
	"strings"
)

// counter reads the processor's time stamp counter.
//
//go:noescape
func counter() int64

// counts reports whether the counter is usable as a clock: equal on all processors, at a constant rate. If it is not,
// the kernel uses another clock source.
func counts() bool {
	b, err := os.ReadFile("/sys/devices/system/clocksource/clocksource0/current_clocksource")
	return err == nil && strings.TrimSpace(string(b)) == "tsc"
}
