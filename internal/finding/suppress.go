package finding

import (
	"path/filepath"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Suppression describes findings that users know and do not want to see.
//
// A file of them is text:
//
//	# A line that begins with # is a comment.
//	[ring buffer, fixed in the next release]
//	rule: host-write-in-flight
//	offence:
//	    fill_ring at ring.c
//	    ...
//	    main
//	submitted:
//	    ...
//	    flush* at src/ring.c:120 in libring.so
//
// The name and the rule are required. Stacks are optional. Each stands indented below its role: "offence", or the role
// of another site of the finding. It is compared with the innermost frames; further frames do not matter. * stands for
// any text, ... for any number of frames. A file or a module without a slash is compared with the last part of the
// path, one with a slash with its end.
type Suppression struct {
	Name   string
	Rule   string // pattern
	Stacks []StackPattern
	From   string // file:line, for messages
	Used   int    // findings that it suppressed
}

// StackPattern describes the stack of a site.
type StackPattern struct {
	Role   string // of the site; OffenceRole for the offence
	Frames []FramePattern
}

// OffenceRole stands for the offence, whatever its role is called.
const OffenceRole = "offence"

// FramePattern describes a frame; an empty text matches everything.
type FramePattern struct {
	Any      bool // "...": any number of frames
	Function string
	File     string
	Line     int
	Module   string
}

// Matches reports whether s describes f.
func (s *Suppression) Matches(f *Finding) bool {
	if !matches(s.Rule, f.Rule) {
		return false
	}
	for i := range s.Stacks {
		if !s.Stacks[i].fits(f) {
			return false
		}
	}
	return true
}

// Suppressor returns the first element of list that describes f, or nil.
func Suppressor(list []*Suppression, f *Finding) *Suppression {
	for _, s := range list {
		if s.Matches(f) {
			return s
		}
	}
	return nil
}

func (p *StackPattern) fits(f *Finding) bool {
	if p.Role == OffenceRole {
		return p.fitsStack(f.Offence.Stack)
	}
	if p.Role == f.Offence.Role && p.fitsStack(f.Offence.Stack) {
		return true
	}
	for i := range f.Others {
		if p.Role == f.Others[i].Role && p.fitsStack(f.Others[i].Stack) {
			return true
		}
	}
	return false
}

// fitsStack compares the pattern with the innermost frames; frames beyond the pattern do not matter.
func (p *StackPattern) fitsStack(stack []Frame) bool {
	frames := append(p.Frames[:len(p.Frames):len(p.Frames)], FramePattern{Any: true})
	return sequence(len(frames), len(stack),
		func(i int) bool { return frames[i].Any },
		func(i, j int) bool { return frames[i].fits(&stack[j]) })
}

func (p *FramePattern) fits(f *Frame) bool {
	return (p.Function == "" || matches(p.Function, f.Function)) &&
		(p.File == "" || matchesPath(p.File, f.File)) &&
		(p.Line == 0 || p.Line == f.Line) &&
		(p.Module == "" || matchesPath(p.Module, f.Module))
}

// matchesPath compares a pattern with a path, its last part, and every end of it after a slash.
func matchesPath(pattern, path string) bool {
	return matches(pattern, path) || path != "" && matches(pattern, filepath.Base(path)) || !filepath.IsAbs(pattern) &&
		matches("*/"+pattern, path)
}

// matches compares text with a pattern in which * stands for any text.
func matches(pattern, text string) bool {
	return sequence(len(pattern), len(text),
		func(i int) bool { return pattern[i] == '*' },
		func(i, j int) bool { return pattern[i] == text[j] })
}

// sequence compares n items of a pattern with m others: an item for which anything is true stands for any number, the
// others for one each. It backtracks to the last such item only, which is enough, so it takes at most n times m steps.
func sequence(n, m int, anything func(i int) bool, one func(i, j int) bool) bool {
	i, j := 0, 0
	last, resume := -1, 0 // the last item that stands for any number, and the position tried after it
	for j < m {
		switch {
		case i < n && anything(i):
			last, resume = i, j
			i++
		case i < n && one(i, j):
			i++
			j++
		case last >= 0:
			resume++
			i, j = last+1, resume
		default:
			return false
		}
	}
	for i < n && anything(i) {
		i++
	}
	return i == n
}

// mostFrames limits the frames of a stack in a written suppression.
const mostFrames = 8

// For returns a suppression of f and of similar findings: the same functions and files, in any lines.
func For(f *Finding) *Suppression {
	s := &Suppression{Name: f.Rule, Rule: f.Rule}
	if where := f.Offence.where(); where != "" {
		s.Name += " in " + where
	}
	s.Name = oneLine(strings.Trim(s.Name, "[] "))
	s.add(OffenceRole, f.Offence.Stack)
	for i := range f.Others {
		s.add(f.Others[i].Role, f.Others[i].Stack)
	}
	return s
}

// where returns the innermost function with a name, and its file.
func (s *Site) where() string {
	for _, f := range s.Stack {
		if f.Function != "" {
			if f.File == "" {
				return f.Function
			}
			return f.Function + ", " + filepath.Base(f.File)
		}
	}
	return ""
}

func (s *Suppression) add(role string, stack []Frame) {
	p := StackPattern{Role: oneLine(role)}
	if !isRole(p.Role) || p.Role != role {
		return // it could not be read again
	}
	for _, f := range stack[:min(len(stack), mostFrames)] {
		p.Frames = append(p.Frames, patternOf(&f))
	}
	if len(p.Frames) > 0 {
		s.Stacks = append(s.Stacks, p)
	}
}

func patternOf(f *Frame) FramePattern {
	p := FramePattern{Function: literal(f.Function)}
	if f.File != "" {
		p.File = literal(filepath.Base(f.File))
	} else if f.Module != "" {
		p.Module = literal(filepath.Base(f.Module))
	}
	if p.Function == "" || p.Function == "..." {
		p.Function = "*"
	}
	return p
}

// literal returns a pattern that matches text and can be read again: text with a meaning in a suppression becomes *.
func literal(text string) string {
	text = oneLine(text)
	for _, word := range []string{" at ", " in "} {
		text = strings.ReplaceAll(text, word, "*")
	}
	if i := strings.LastIndexByte(text, ':'); i >= 0 {
		if _, err := strconv.Atoi(text[i+1:]); err == nil {
			text = text[:i] + "*" // it would be parsed as a line number
		}
	}
	if strings.HasPrefix(text, "#") || strings.HasPrefix(text, " ") || strings.HasPrefix(text, "at ") ||
		strings.HasPrefix(text, "in ") {
		text = "*" + text[1:]
	}
	if strings.HasSuffix(text, " ") || strings.HasSuffix(text, " at") || strings.HasSuffix(text, " in") {
		text += "*"
	}
	return text
}

// oneLine replaces everything that is not plain text by *.
func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if r != ' ' && (unicode.IsSpace(r) || unicode.IsControl(r)) || r == utf8.RuneError {
			return '*'
		}
		return r
	}, text)
}

// String returns s in the format of a file.
func (s *Suppression) String() string {
	var b strings.Builder
	b.WriteString("[" + s.Name + "]\nrule: " + s.Rule + "\n")
	for _, p := range s.Stacks {
		b.WriteString(p.Role + ":\n")
		for _, f := range p.Frames {
			b.WriteString("    " + f.String() + "\n")
		}
	}
	return b.String()
}

// String returns p in the format of a file.
func (p FramePattern) String() string {
	if p.Any {
		return "..."
	}
	text := p.Function
	if p.File != "" {
		text += " at " + p.File
		if p.Line > 0 {
			text += ":" + strconv.Itoa(p.Line)
		}
	}
	if p.Module != "" {
		text += " in " + p.Module
	}
	return text
}
