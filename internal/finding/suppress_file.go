package finding

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"ropeway/internal/readfile"
)

// SyntaxError is a line of a suppression file that cannot be read.
type SyntaxError struct {
	File string
	Line int
	Text string // what is wrong and what to write
}

func (e *SyntaxError) Error() string { return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Text) }

// ParseSuppressions reads a suppression file; see [Suppression] for its form. The error is a *SyntaxError.
func ParseSuppressions(file, text string) ([]*Suppression, error) {
	p := &suppressionParser{file: file}
	for line := range strings.SplitSeq(text, "\n") {
		p.line++
		if err := p.read(strings.TrimSuffix(line, "\r")); err != nil {
			return nil, err
		}
	}
	if err := p.finish(); err != nil {
		return nil, err
	}
	return p.list, nil
}

// ReadSuppressions reads suppression files. The error is a *SyntaxError if a file can be read.
func ReadSuppressions(files []string) (all []*Suppression, err error) {
	for _, file := range files {
		text, err := readfile.Bounded(file, readfile.Text)
		if err != nil {
			return nil, err
		}
		list, err := ParseSuppressions(file, string(text))
		if err != nil {
			return nil, err
		}
		all = append(all, list...)
	}
	return all, nil
}

type suppressionParser struct {
	file  string
	line  int
	list  []*Suppression
	begun int // line of the last name
	role  int // line of the last role, 0 if no role is open
}

func (p *suppressionParser) wrong(line int, format string, args ...any) error {
	return &SyntaxError{p.file, line, fmt.Sprintf(format, args...)}
}

func (p *suppressionParser) read(line string) error {
	text := strings.TrimSpace(line)
	switch {
	case !utf8.ValidString(line):
		return p.wrong(p.line, "this is not UTF-8 text")
	case text == "" || text[0] == '#':
		return nil
	case line[0] == ' ' || line[0] == '\t':
		return p.frame(text)
	case text[0] == '[':
		return p.name(text)
	}
	word, value, ok := strings.Cut(text, ":")
	if !ok {
		return p.wrong(p.line, "%q is no [name], no rule: and no role like offence: or submitted:; frames are indented",
			text)
	}
	if len(p.list) == 0 {
		return p.wrong(p.line, "a suppression begins with its name: [why it is there]")
	}
	if word == "rule" {
		return p.rule(strings.TrimSpace(value))
	}
	if !isRole(word) {
		return p.wrong(p.line, "%q is no role; roles are offence and those of a report, like submitted or allocated",
			word)
	}
	if strings.TrimSpace(value) != "" {
		return p.wrong(p.line, "frames stand on lines of their own, indented, below %s:", word)
	}
	return p.open(word)
}

// isRole reports whether text can head a stack: words and hyphens.
func isRole(text string) bool {
	return text != "" && text != "rule" && text == strings.TrimSpace(text) && !strings.ContainsAny(text,
		":[]#*\t") && text[0] != '.'
}

func (p *suppressionParser) name(text string) error {
	if err := p.finish(); err != nil {
		return err
	}
	name, ok := strings.CutSuffix(text[1:], "]")
	if name = strings.TrimSpace(name); !ok || name == "" {
		return p.wrong(p.line, "a name is written like [why it is there]")
	}
	p.list = append(p.list, &Suppression{Name: name, From: fmt.Sprintf("%s:%d", p.file, p.line)})
	p.begun = p.line
	return nil
}

func (p *suppressionParser) rule(pattern string) error {
	s := p.list[len(p.list)-1]
	if s.Rule != "" {
		return p.wrong(p.line, "there is a rule already; write another suppression for %s, or use * in one pattern",
			pattern)
	}
	known := false
	for _, r := range Rules {
		known = known || matches(pattern, r.Name)
	}
	if !known {
		hint := ""
		if near := Near(pattern); near != "" {
			hint = "; did you mean " + near + "?"
		}
		return p.wrong(p.line, "there is no rule %q%s", pattern, hint)
	}
	s.Rule = pattern
	return p.closeRole()
}

func (p *suppressionParser) open(role string) error {
	if err := p.closeRole(); err != nil {
		return err
	}
	s := p.list[len(p.list)-1]
	s.Stacks = append(s.Stacks, StackPattern{Role: role})
	p.role = p.line
	return nil
}

// frame reads "function", "function at file", "function at file:line", each with "in module" after it or not, or "...".
func (p *suppressionParser) frame(text string) error {
	if p.role == 0 {
		return p.wrong(p.line, "a frame stands below the role of its stack, like offence:")
	}
	stacks := p.list[len(p.list)-1].Stacks
	stack := &stacks[len(stacks)-1]
	var f FramePattern
	if text == "..." {
		f.Any = true
	} else {
		f.Function = text
		if i := strings.LastIndex(f.Function, " in "); i >= 0 {
			f.Function, f.Module = f.Function[:i], f.Function[i+4:]
		}
		if i := strings.LastIndex(f.Function, " at "); i >= 0 {
			f.Function, f.File = f.Function[:i], f.Function[i+4:]
		}
		if i := strings.LastIndexByte(f.File, ':'); i >= 0 {
			if n, err := strconv.Atoi(f.File[i+1:]); err == nil && n > 0 {
				f.File, f.Line = f.File[:i], n
			}
		}
		f.Function, f.File, f.Module = strings.TrimSpace(f.Function), strings.TrimSpace(f.File),
			strings.TrimSpace(f.Module)
		if f.Function == "" || f.Function == "..." {
			return p.wrong(p.line, "%q has no function; write * for any", text)
		}
	}
	stack.Frames = append(stack.Frames, f)
	return nil
}

// closeRole checks that the stack just read has frames.
func (p *suppressionParser) closeRole() error {
	line := p.role
	p.role = 0
	if line == 0 {
		return nil
	}
	stacks := p.list[len(p.list)-1].Stacks
	if last := stacks[len(stacks)-1]; len(last.Frames) == 0 {
		return p.wrong(line, "there are no frames below %s: (indent them, or leave it out)", last.Role)
	}
	return nil
}

// finish checks that the suppression just read is complete.
func (p *suppressionParser) finish() error {
	if len(p.list) == 0 {
		return nil
	}
	if err := p.closeRole(); err != nil {
		return err
	}
	if s := p.list[len(p.list)-1]; s.Rule == "" {
		return p.wrong(p.begun, "[%s] has no rule; write rule: and its name, or rule: *", s.Name)
	}
	return nil
}

// WriteSuppressions writes a file that suppresses all of these findings. Suppressions with equal text are written once.
func WriteSuppressions(w io.Writer, list []*Entry) error {
	text := "# Suppressions for ropeway check --suppress. [name], rule:, then stacks by role, innermost frame " +
		"first;\n" +
		"# * is any text, ... any number of frames. Write into the name why it may stay.\n"
	seen := map[string]bool{}
	for _, e := range list {
		s := For(&e.Finding)
		entry := s.String()
		if seen[entry] {
			continue
		}
		seen[entry] = true
		if len(s.Stacks) == 0 {
			entry = "# There was no stack, so this suppresses the whole rule.\n" + entry
		}
		text += "\n" + entry
	}
	_, err := io.WriteString(w, text)
	return err
}
