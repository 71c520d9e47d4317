package ui

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"

	"ropeway/internal/testenv"
)

func TestNew(t *testing.T) {
	r, w, err := os.Pipe()
	testenv.OK(t, err)
	defer r.Close()
	defer w.Close()
	env := func(name string) string { return map[string]string{"TERM": "xterm"}[name] }
	if o := New(w, env); o.Live || o.Color || o.UTF8 {
		t.Errorf("a pipe is no terminal: %+v", o)
	}
	if o := New(&bytes.Buffer{}, env); o.Live || o.Color || o.UTF8 {
		t.Errorf("a buffer is no terminal: %+v", o)
	}
}

// TestColours: terminals have colours and nothing else has, unless a variable says otherwise; NO_COLOR wins.
func TestColours(t *testing.T) {
	for _, tt := range []struct {
		no, cli, force string
		terminal, file bool
	}{
		{"", "", "", true, false},
		{"1", "", "", false, false},
		{"", "0", "", false, false},
		{"", "1", "", true, false},
		{"", "", "1", true, true},
		{"", "", "0", true, false},
		{"", "0", "1", true, true},
		{"1", "1", "1", false, false},
	} {
		env := map[string]string{"NO_COLOR": tt.no, "CLICOLOR": tt.cli, "CLICOLOR_FORCE": tt.force}
		get := func(name string) string { return env[name] }
		if terminal, file := colours(true, get), colours(false, get); terminal != tt.terminal || file != tt.file {
			t.Errorf("%v: a terminal %v, a file %v", env, terminal, file)
		}
		if o := New(&bytes.Buffer{}, get); o.Color != tt.file || o.Live {
			t.Errorf("%v: %+v", env, o)
		}
	}
}

func TestUTF8(t *testing.T) {
	for _, tt := range []struct {
		all, ctype, lang string
		want             bool
	}{
		{"", "", "", false}, {"", "", "C", false}, {"", "", "de_DE.UTF-8", true}, {"", "C.utf8", "C", true},
		{"C", "C.utf8", "C.utf8", false}, {"C.UTF-8", "", "C", true},
	} {
		env := map[string]string{"LC_ALL": tt.all, "LC_CTYPE": tt.ctype, "LANG": tt.lang}
		if got := isUTF8(func(name string) string { return env[name] }); got != tt.want {
			t.Errorf("%v: %v", env, got)
		}
	}
}

func TestBytes(t *testing.T) {
	for n, want := range map[uint64]string{
		0: "0 B", 1023: "1023 B", 1024: "1 KiB", 1536: "1.5 KiB", 256 << 20: "256 MiB", 3 << 40: "3 TiB",
		1 << 62: "4194304 TiB",
	} {
		if got := Bytes(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}

func TestParseBytes(t *testing.T) {
	for text, want := range map[string]int{
		"0": 0, "4096": 4096, "4096B": 4096, "64MiB": 64 << 20, "64mib": 64 << 20, "64M": 64 << 20, "64MB": 64e6,
		"1.5GiB": 3 << 29, "1 TiB": 1 << 40, "2KB": 2000, "1k": 1024,
	} {
		if got, err := ParseBytes(text); err != nil || got != want {
			t.Errorf("%q: %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "MiB", "-1", "1XiB", "1..2", "NaN", "Inf", "9999999999TiB", "0x10", "1 2 Mi"} {
		if got, err := ParseBytes(text); err == nil {
			t.Errorf("%q: %d", text, got)
		}
	}
}

func TestTable(t *testing.T) {
	c := Columns{6, -5}
	for _, tt := range []struct {
		cells []string
		want  string
	}{
		{[]string{"ab", "12"}, "ab       12"},
		{[]string{"ab", ""}, "ab"},
		{[]string{"too long", "12"}, "too long   12"},
		{[]string{"ab", "12", "more"}, "ab       12  more"},
		{[]string{"äö", "12"}, "äö       12"},
	} {
		if got := c.Row(tt.cells...); got != tt.want {
			t.Errorf("%q: %q, want %q", tt.cells, got, tt.want)
		}
	}
	if got := Wrap("one two three  four", 9); !slices.Equal(got, []string{"one two", "three", "four"}) {
		t.Errorf("%q", got)
	}
	if got := Wrap("  ", 9); got != nil {
		t.Errorf("%q", got)
	}
}

// screen is what is on a terminal's last line after text was written to it.
func screen(text string) string {
	var line []rune
	at := 0
	for _, r := range text {
		switch r {
		case '\n':
			line, at = nil, 0
		case '\r':
			at = 0
		default:
			if at == len(line) {
				line = append(line, r)
			} else {
				line[at] = r
			}
			at++
		}
	}
	return strings.TrimRight(string(line), " ")
}

func TestProgress(t *testing.T) {
	for _, utf8 := range []bool{false, true} {
		var b bytes.Buffer
		width := 80
		o := &Output{W: &b, Live: true, UTF8: utf8, Width: func() int { return width }}
		p := o.Progress(4)
		p.Step("first", 1)
		bar := "[=======>" + strings.Repeat(" ", 25) + "]"
		if utf8 {
			bar = " " + strings.Repeat("━", 8) + strings.Repeat("─", 25) + " "
		}
		if s := screen(b.String()); !strings.Contains(s, " "+bar+" ") {
			t.Errorf("a quarter is drawn as %q", s)
		}
		if s := screen(b.String()); !strings.HasPrefix(s, "first ") || !strings.HasSuffix(s, " 25%") ||
			len([]rune(s)) != 77 {
			t.Errorf("%q", s)
		}
		o.Line("a line")
		if !strings.Contains(b.String(), "\ra line\n") {
			t.Errorf("the line is not alone: %q", b.String())
		}
		for width = 80; width >= 0; width-- {
			b.Reset()
			p.Step("second", 0)
			if s := screen(b.String()); len([]rune(s)) > max(1, width-1) {
				t.Errorf("%d columns: %q", width, s)
			}
		}
		width = 80
		p.Close()
		if s := screen(b.String()); s != "" {
			t.Errorf("left on the screen: %q", s)
		}
		p.Close()
		b.Reset()
		o.Line("after")
		if b.String() != "after\n" {
			t.Errorf("%q", b.String())
		}
	}
}

func TestPlain(t *testing.T) {
	var b bytes.Buffer
	o := &Output{W: &b}
	p := o.Progress(2)
	p.Step("first", 1)
	o.Line("%s%s%s%s", o.Bold("a"), o.Dim("b"), o.Good("c"), o.Bad("d"))
	p.Close()
	if b.String() != "abcd\n" {
		t.Errorf("%q", b.String())
	}
	o.Color = true
	if got := o.Good("c"); got != "\x1b[32mc\x1b[0m" {
		t.Errorf("%q", got)
	}
}

// TestFold: lines keep to the width, what colours them takes no room, and nothing is folded without a width.
func TestFold(t *testing.T) {
	text := "  one \x1b[31mtwo three\x1b[0m four five"
	for width, want := range map[int][]string{
		0: {text}, 25: {text},
		21: {"  one \x1b[31mtwo three\x1b[0m", "    four five"}, // 4 columns are kept for the indentation
		14: {"  one \x1b[31mtwo", "    three\x1b[0m four", "    five"},
	} {
		if got := Fold(text, width); !slices.Equal(got, want) {
			t.Errorf("%d: %q, want %q", width, got, want)
		}
	}
}
