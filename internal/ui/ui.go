// Package ui writes to people: colours where a terminal shows them, tables, sizes, a progress bar. Where the output is
// no terminal it writes plain lines and nothing else.
package ui

import (
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// Output is where a command writes. The zero value of everything but W is plain output.
type Output struct {
	W     io.Writer
	Live  bool       // a terminal: a line can be drawn again
	Color bool       // it may be coloured
	UTF8  bool       // a terminal that shows more than ASCII
	Width func() int // columns now; nil: 80

	bar *Progress // shown at the bottom, or nil
}

// New looks at w and the environment: a terminal is one unless TERM is empty or dumb. Terminals are coloured, unless
// NO_COLOR or CLICOLOR=0 keeps them plain; CLICOLOR_FORCE=1 has colours everywhere, but not against NO_COLOR.
func New(w io.Writer, getenv func(string) string) *Output {
	o := &Output{W: w}
	o.Color = colours(false, getenv)
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return o
	}
	if t := getenv("TERM"); t == "" || t == "dumb" {
		return o
	}
	o.Live = true
	o.Color = colours(true, getenv)
	o.UTF8 = isUTF8(getenv)
	o.Width = func() int {
		n, _, err := term.GetSize(int(f.Fd()))
		if err != nil || n <= 0 {
			return defaultWidth
		}
		return n
	}
	return o
}

// colours reports whether to use them.
func colours(terminal bool, getenv func(string) string) bool {
	force := getenv("CLICOLOR_FORCE")
	switch {
	case getenv("NO_COLOR") != "":
		return false
	case force != "" && force != "0":
		return true
	}
	return terminal && getenv("CLICOLOR") != "0"
}

const defaultWidth = 80

// isUTF8 asks the locale, the variable that counts most first.
func isUTF8(getenv func(string) string) bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := strings.ToUpper(getenv(name)); v != "" {
			return strings.Contains(v, "UTF-8") || strings.Contains(v, "UTF8")
		}
	}
	return false
}

func (o *Output) width() int {
	if o.Width == nil {
		return defaultWidth
	}
	return o.Width()
}

// Line writes a line, above the progress bar if there is one.
func (o *Output) Line(format string, args ...any) { o.To(o.W, format, args...) }

// To writes a line to another writer of the same terminal, above the progress bar if there is one.
func (o *Output) To(w io.Writer, format string, args ...any) {
	if o.bar != nil {
		o.bar.clear()
		defer o.bar.draw()
	}
	fmt.Fprintf(w, format+"\n", args...)
}

// Bold, Dim, Good and Bad colour text; widths are to be made before.
func (o *Output) Bold(s string) string { return o.paint("1", s) }
func (o *Output) Dim(s string) string  { return o.paint("2", s) }
func (o *Output) Good(s string) string { return o.paint("32", s) }
func (o *Output) Bad(s string) string  { return o.paint("31", s) }

func (o *Output) paint(code, s string) string {
	if !o.Color || s == "" {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}
