package recorder

import (
	"os"
	"strings"
)

// counter reads the processor's counter of time.
//
//go:noescape
func counter() int64

// counts reports whether the counter is a clock: the same on all processors, at one rate. If it is not, the kernel uses
// another.
func counts() bool {
	b, err := os.ReadFile("/sys/devices/system/clocksource/clocksource0/current_clocksource")
	return err == nil && strings.TrimSpace(string(b)) == "tsc"
}
