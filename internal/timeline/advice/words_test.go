package advice

import "testing"

func TestWords(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{duration(0), "0 ns"}, {duration(999), "999 ns"}, {duration(1000), "1 µs"}, {duration(12_345), "12.3 µs"},
		{duration(1_500_000), "1.5 ms"},
		{duration(99_960_000), "100 ms"}, {duration(2_000_000_000), "2 s"}, {duration(123_000_000_000), "123 s"},
		{size(0), "0 B"}, {size(1023), "1023 B"}, {size(1536), "1.5 KiB"}, {size(10 << 20), "10 MiB"},
		{size(3 << 40), "3 TiB"},
		{speed(23.96), "24 GB/s"}, {speed(0.1234), "0.12 GB/s"},
		{share(1, 3), "33%"}, {share(1, 1000), "less than 1%"}, {share(0, 10), "0%"}, {share(1, 0), "0%"},
		{plural(1, "copy"), "1 copy"}, {plural(2, "copy"), "2 copies"}, {plural(2, "batch"), "2 batches"},
		{plural(0, "group"), "0 groups"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}
