package finding

import (
	"fmt"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Style marks words, as a terminal does; [ropeway/internal/ui.Output] is one.
type Style interface {
	Bold(string) string
	Dim(string) string
	Bad(string) string
}

// Layout controls how findings are written for people. The zero value is plain text for files.
type Layout struct {
	Style   Style    // nil: none
	Width   int      // columns to break sentences at; 0: a sentence is a line, which can be searched for
	Dir     string   // files below it are written relative to it
	Sources *Sources // source lines to show; nil: none
}

// plain is the style of files.
type plain struct{}

func (plain) Bold(s string) string { return s }
func (plain) Dim(s string) string  { return s }
func (plain) Bad(s string) string  { return s }

// Text returns a finding as text: severity, rule and summary, then the sites, the bytes and the advice.
func (l Layout) Text(f *Finding) string {
	if l.Style == nil {
		l.Style = plain{}
	}
	var b strings.Builder
	mark := l.Style.Bold
	if f.Severity == Error {
		mark = l.Style.Bad
	}
	head := Printable(fmt.Sprintf("%s: %s: ", f.Severity, f.Rule))
	lines := l.sentence(head+f.Summary, "  ")
	b.WriteString(mark(head) + strings.TrimPrefix(lines, head))
	l.site(&b, &f.Offence)
	for i := range f.Others {
		l.site(&b, &f.Others[i])
	}
	if f.Bytes != nil {
		b.WriteString(l.sentence("  bytes: "+f.Bytes.String(), "    "))
	}
	if f.Advice != "" {
		b.WriteString(l.sentence("  what to do: "+f.Advice, "    "))
	}
	b.WriteString(l.Style.Dim("  "+occurrence(f)) + "\n")
	return b.String()
}

// occurrence says where and how many times a finding happened.
func occurrence(f *Finding) string {
	text := fmt.Sprintf("seed %d", f.Seed)
	if f.Process != 0 {
		text = fmt.Sprintf("process %d, ", f.Process) + text
	}
	if f.Server != nil {
		text = fmt.Sprintf("server %d, ", *f.Server) + text
	}
	if f.Count > 1 {
		text += fmt.Sprintf(", %d times", f.Count)
	}
	return text
}

// happened returns the role of a site, for people: "made", or "made 12 times".
func (s *Site) happened() string {
	if s.Count > 1 {
		return fmt.Sprintf("%s %d times", s.Role, s.Count)
	}
	return s.Role
}

func (l Layout) site(b *strings.Builder, s *Site) {
	role := Printable(s.happened())
	if s.Stream != nil {
		role += fmt.Sprintf(" on stream %d", *s.Stream)
	}
	if s.Task != 0 {
		role += fmt.Sprintf(", task %d", s.Task)
	}
	if s.Thread != 0 {
		if s.Stream != nil || s.Task != 0 {
			role += ","
		}
		role += fmt.Sprintf(" by thread %d", s.Thread)
	}
	b.WriteString("  " + l.Style.Bold(role) + "\n")
	if s.Call != "" {
		b.WriteString("    " + Printable(s.Call) + "\n")
	}
	for i, f := range s.Stack {
		b.WriteString("    " + l.Style.Dim(fmt.Sprintf("#%d", i)) + " " + Printable(l.frame(f)) + "\n")
		if line := l.Sources.line(f, l.Dir); line != "" {
			b.WriteString("       " + l.Style.Dim("|") + " " + shorten(Printable(line), longestSource) + "\n")
		}
	}
	if len(s.Stack) == 0 {
		b.WriteString("    " + l.Style.Dim("(no stack)") + "\n")
	}
}

// longestSource limits the characters of a source line that are shown.
const longestSource = 100

// shorten cuts text to most characters.
func shorten(text string, most int) string {
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	return string([]rune(text)[:most-1]) + "…"
}

// Place returns the place of a site in a line: "src/app.c:30 in load"; "" if it is unknown.
func (l Layout) Place(s *Site) string {
	f := s.innermost()
	if f == nil {
		return ""
	}
	place := f.place(l.Dir)
	switch {
	case place == "":
		return Printable(f.Function)
	case f.Function == "":
		return Printable(place)
	}
	return Printable(place + " in " + f.Function)
}

// Line returns the file and line of a site, without the directory: "app.c:30"; "" if it is unknown.
func (s *Site) Line() string {
	f := s.innermost()
	if f == nil || f.File == "" {
		return ""
	}
	return Frame{File: filepath.Base(f.File), Line: f.Line}.place("")
}

// frame returns for example "load src/app.c:30 (app)".
func (l Layout) frame(f Frame) string {
	text, module := f.Function, f.Module
	switch {
	case text == "" && module != "" && f.Inside != 0:
		text, module = fmt.Sprintf("%s+0x%x", filepath.Base(module), f.Inside), ""
	case text == "":
		text = fmt.Sprintf("0x%x", f.Address)
	}
	if place := f.place(l.Dir); place != "" {
		text += " " + place
	}
	if module != "" {
		text += " (" + filepath.Base(module) + ")"
	}
	if f.Inlined {
		text += " [inlined]"
	}
	return text
}

// place returns file:line, as far as it is known.
func (f Frame) place(dir string) string {
	if f.File == "" {
		return ""
	}
	text := Below(dir, f.File)
	if f.Line > 0 {
		text += fmt.Sprintf(":%d", f.Line)
	}
	return text
}

// Below returns file relative to dir if it is in dir, else file.
func Below(dir, file string) string {
	if dir == "" || !filepath.IsAbs(file) {
		return file
	}
	rel, err := filepath.Rel(dir, file)
	if err != nil || rel == "." || rel == ".." || strings.HasPrefix(rel, "../") {
		return file
	}
	return rel
}

// String says which bytes, and which part of an allocation they are.
func (b *Bytes) String() string {
	text := fmt.Sprintf("%s at 0x%x", count(b.Length), b.Address)
	a := b.Allocation
	if a == nil {
		return text + ", in no allocation of AscendCL"
	}
	where := a.Kind + " memory"
	if a.Kind == "device" {
		where = fmt.Sprintf("memory of device %d", a.Device)
	}
	text += fmt.Sprintf(", offset %d in %s of %s (0x%x)", b.Offset, count(a.Size), where, a.Start)
	if a.Freed {
		text += ", which was freed"
	}
	return text
}

func count(n uint64) string {
	if n == 1 {
		return "1 byte"
	}
	return fmt.Sprintf("%d bytes", n)
}

// sentence breaks text into lines, the second and later ones after indent.
func (l Layout) sentence(text, indent string) string {
	text = Printable(text)
	if l.Width <= 0 {
		return text + "\n"
	}
	var b strings.Builder
	lead := text[:len(text)-len(strings.TrimLeft(text, " "))]
	line := lead
	for i, word := range strings.Fields(text) {
		if i > 0 && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > l.Width {
			b.WriteString(line + "\n")
			line = indent + word
			continue
		}
		if i > 0 {
			line += " "
		}
		line += word
	}
	return b.String() + line + "\n"
}

// Printable replaces characters that could move the cursor, fake lines or break XML: programs choose the names of their
// functions and files.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' || r == utf8.RuneError || r&0xfffe == 0xfffe {
			return '?'
		}
		return r
	}, text)
}
