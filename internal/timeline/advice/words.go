package advice

import (
	"fmt"
	"strconv"
	"strings"
)

// duration formats nanoseconds with three digits, in the largest unit in which they are at least 1.
func duration(ns int64) string {
	for _, unit := range []struct {
		name string
		ns   float64
	}{{"s", 1e9}, {"ms", 1e6}, {"µs", 1e3}} {
		if v := float64(ns) / unit.ns; v >= 1 {
			return threeDigits(v) + " " + unit.name
		}
	}
	return fmt.Sprintf("%d ns", ns)
}

// size formats bytes with three digits, in the largest unit in which they are at least 1.
func size(bytes uint64) string {
	v, unit := float64(bytes), "B"
	for _, next := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if v < 1024 {
			break
		}
		v, unit = v/1024, next
	}
	return threeDigits(v) + " " + unit
}

// speed formats bytes per nanosecond, which are gigabytes per second.
func speed(v float64) string { return threeDigits(v) + " GB/s" }

// share formats a part of a whole as a percentage, such as "31%".
func share(part, whole int64) string {
	if whole <= 0 {
		return "0%"
	}
	v := 100 * float64(part) / float64(whole)
	if v > 0 && v < 1 {
		return "less than 1%"
	}
	return strconv.FormatFloat(v, 'f', 0, 64) + "%"
}

// threeDigits formats a number with three significant digits, without trailing zeros.
func threeDigits(v float64) string {
	decimals := 2
	switch {
	case v >= 99.95:
		decimals = 0
	case v >= 9.995:
		decimals = 1
	}
	text := strconv.FormatFloat(v, 'f', decimals, 64)
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text
}

// plural writes a number and its noun.
func plural(n int, noun string) string {
	switch {
	case n == 1:
		return "1 " + noun
	case strings.HasSuffix(noun, "y"):
		return fmt.Sprintf("%d %sies", n, strings.TrimSuffix(noun, "y"))
	case strings.HasSuffix(noun, "ch"):
		noun += "e"
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
