package ui

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// units in the order of [Bytes].
var units = []string{"B", "KiB", "MiB", "GiB", "TiB"}

// Bytes writes a number of bytes in the largest unit that keeps it at least 1, with a decimal only if it is needed.
func Bytes(n uint64) string {
	v, i := float64(n), 0
	for v >= 1024 && i < len(units)-1 {
		v /= 1024
		i++
	}
	text := strconv.FormatFloat(v, 'f', 1, 64)
	return strings.TrimSuffix(text, ".0") + " " + units[i]
}

// suffixes of sizes that [ParseBytes] reads, in capitals; without "i" they are decimal only if a B follows.
var suffixes = map[string]float64{
	"": 1, "B": 1,
	"K": 1 << 10, "KIB": 1 << 10, "KB": 1e3,
	"M": 1 << 20, "MIB": 1 << 20, "MB": 1e6,
	"G": 1 << 30, "GIB": 1 << 30, "GB": 1e9,
	"T": 1 << 40, "TIB": 1 << 40, "TB": 1e12,
}

// ParseBytes reads a size such as 64MiB, 1.5G, 100MB or 4096.
func ParseBytes(text string) (int, error) {
	s := strings.ToUpper(strings.ReplaceAll(text, " ", ""))
	end := strings.LastIndexAny(s, "0123456789.") + 1
	unit, known := suffixes[s[end:]]
	v, err := strconv.ParseFloat(s[:end], 64)
	if !known || err != nil || math.IsNaN(v) || v < 0 {
		return 0, fmt.Errorf("%q is no size; write it like 64MiB, 1GiB or 1048576", text)
	}
	v *= unit
	if v >= math.MaxInt64 {
		return 0, fmt.Errorf("%q is out of range", text)
	}
	return int(v), nil
}
