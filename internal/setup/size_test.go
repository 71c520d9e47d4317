package setup

import (
	"strings"
	"testing"
)

func TestParseSizeReadsBytesAndUnitsOf1024(t *testing.T) {
	for text, want := range map[string]uint64{
		"0":                    0,
		"4096":                 4096,
		"4096B":                4096,
		"1K":                   1 << 10,
		"1k":                   1 << 10,
		"1KiB":                 1 << 10,
		"3kib":                 3 << 10,
		"512M":                 512 << 20,
		"512 MiB":              512 << 20,
		"64G":                  64 << 30,
		"64gIb":                64 << 30,
		" 2T ":                 2 << 40,
		"2TiB":                 2 << 40,
		"18446744073709551615": 1<<64 - 1,
		"16777215T":            16777215 << 40,
	} {
		if got, err := ParseSize(text); err != nil || got != want {
			t.Errorf("ParseSize(%q) = %d, %v; want %d", text, got, err, want)
		}
	}
}

func TestParseSizeSaysWhatIsWrong(t *testing.T) {
	for text, want := range map[string]string{
		"":                     "does not start with a number",
		"G":                    "does not start with a number",
		"-1":                   "does not start with a number",
		"+1":                   "does not start with a number",
		"1.5G":                 "only whole numbers",
		"1KB":                  `unit "KB"`,
		"1 GB":                 `unit "GB"`,
		"1P":                   `unit "P"`,
		"1iB":                  `unit "iB"`,
		"1KM":                  `unit "KM"`,
		"1G2":                  `unit "G2"`,
		"0x10":                 `unit "x10"`,
		"18446744073709551616": "64 bits",
		"16777216T":            "64 bits",
	} {
		got, err := ParseSize(text)
		if err == nil || !strings.Contains(err.Error(), want) || got != 0 {
			t.Errorf("ParseSize(%q) = %d, %v; want an error with %q", text, got, err, want)
		}
	}
}
