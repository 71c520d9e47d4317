package setup

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// sizeUnits are the letters that ParseSize accepts after the number; each is 1024 times the previous one.
const sizeUnits = "KMGT"

// ParseSize reads an amount of memory: a whole number of bytes ("4096"), or a whole number with a
// unit of 1024 ("512M", "512MiB", "64 GiB"). The units are K, M, G and T, with or without "iB",
// in either case. "B" alone names plain bytes. KB and MB are refused, since programs disagree about their meaning.
func ParseSize(text string) (uint64, error) {
	trimmed := strings.TrimSpace(text)
	digits := 0
	for digits < len(trimmed) && trimmed[digits] >= '0' && trimmed[digits] <= '9' {
		digits++
	}
	if digits == 0 {
		return 0, fmt.Errorf("size %q does not start with a number", text)
	}
	unit, err := parseUnit(strings.TrimSpace(trimmed[digits:]))
	if err != nil {
		return 0, fmt.Errorf("size %q: %w", text, err)
	}
	count, err := strconv.ParseUint(trimmed[:digits], 10, 64)
	if err != nil || count > math.MaxUint64/unit {
		return 0, fmt.Errorf("size %q does not fit in 64 bits", text)
	}
	return count * unit, nil
}

// parseUnit returns the size of a unit in bytes.
func parseUnit(text string) (uint64, error) {
	upper := strings.ToUpper(text)
	if upper == "" || upper == "B" {
		return 1, nil
	}
	letter := strings.TrimSuffix(upper, "IB")
	if power := strings.Index(sizeUnits, letter); len(letter) == 1 && power >= 0 {
		return 1 << (10 * (power + 1)), nil
	}
	if strings.HasPrefix(upper, ".") {
		return 0, errors.New("only whole numbers are taken")
	}
	return 0, fmt.Errorf("unit %q is not one of K, M, G, T, KiB, MiB, GiB, TiB", text)
}
