package capitest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"ropeway/internal/finding"
	"ropeway/internal/testenv"
)

// wanted is what a program says of itself in the comment at its top, one line for each:
//
//	finds: RULE (SEVERITY)
//	offence: ROLE [CALL] [in FUNCTION [at MARK]] [on stream N, task N]
//	other: ROLE [CALL] [in FUNCTION [at MARK]] [on stream N, task N]
//	bytes: OFFSET+LENGTH of KIND SIZE
//	count: N, if it is the same everywhere
//	needs: numpy | x86-64
//	options: of ropeway check
//
// MARK is a comment at the end of a line of the program. LENGTH may be ? where it depends on the library that does the
// access, and OFFSET too, where it begins at some place of its own choice, as memmove does on one processor and not on
// the next. Where two tasks race, either may be the offence and the other one the other.
type wanted struct {
	name     string // of the file
	rule     string
	severity string
	offence  wantedSite
	others   []wantedSite
	bytes    *wantedBytes
	count    int
	needs    string
	options  []string
}

type wantedSite struct {
	role, call, function, mark string
	line                       int // of the mark
	stream                     int32
	task                       uint32 // 0: it is about no task
}

type wantedBytes struct {
	text     string // as it stands in the program
	anywhere bool   // inside the allocation
	offset   int64
	size     uint64
	length   uint64 // 0: any
	kind     string
}

var (
	wantedLine = regexp.MustCompile(`^[ *]*(finds|offence|other|bytes|count|needs|options): (.*)$`)
	findsForm  = regexp.MustCompile(`^([a-z-]+) \((error|warning|note)\)$`)
	siteForm   = regexp.MustCompile(
		`^([a-z]+)(?: (acl[\w.]+|free|realloc|munmap|mmap))?(?: in ([\w~]+)(?: at ([A-Z]+))?)?(?: on stream (\d+), task (\d+))?$`)
	bytesForm = regexp.MustCompile(`^(-?\d+|\?)\+(\d+|\?) of (device|pinned|registered|mapped|imported|managed) (\d+)$`)
	markForm  = regexp.MustCompile(`(?://|#) ([A-Z]+)$`)
)

// readWanted reads what a program says of itself.
func readWanted(t *testing.T, name string) *wanted {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(checkDir, name))
	testenv.OK(t, err)
	w := &wanted{name: name}
	lines := strings.Split(string(text), "\n")
	marks := map[string]int{}
	for i, line := range lines {
		if m := markForm.FindStringSubmatch(line); m != nil {
			if marks[m[1]] != 0 {
				t.Fatalf("%s: %s marks two lines", name, m[1])
			}
			marks[m[1]] = i + 1
		}
	}
	for _, line := range lines {
		m := wantedLine.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		if err := w.take(m[1], m[2], marks); err != nil {
			t.Fatalf("%s: %q: %v", name, line, err)
		}
	}
	if w.rule == "" || w.offence.role == "" {
		t.Fatalf("%s does not say what has to be found", name)
	}
	if r := finding.ByName(w.rule); r == nil || !r.Severity.AtLeast(finding.Severity(w.severity)) {
		t.Fatalf("%s: there is no rule %s with severity %s", name, w.rule, w.severity)
	}
	return w
}

var errForm = errors.New("has no known form")

func (w *wanted) take(key, value string, marks map[string]int) (err error) {
	switch key {
	case "finds":
		m := findsForm.FindStringSubmatch(value)
		if m == nil {
			return errForm
		}
		w.rule, w.severity = m[1], m[2]
	case "offence":
		w.offence, err = parseSite(value, marks)
	case "other":
		var s wantedSite
		s, err = parseSite(value, marks)
		w.others = append(w.others, s)
	case "bytes":
		m := bytesForm.FindStringSubmatch(value)
		if m == nil {
			return errForm
		}
		b := &wantedBytes{text: value, kind: m[3], anywhere: m[1] == "?"}
		b.offset, _ = strconv.ParseInt(m[1], 10, 64)
		b.length, _ = strconv.ParseUint(m[2], 10, 64)
		b.size, _ = strconv.ParseUint(m[4], 10, 64)
		w.bytes = b
	case "count":
		w.count, err = strconv.Atoi(value)
	case "needs":
		w.needs = value
	case "options":
		w.options = strings.Fields(value)
	}
	return err
}

func parseSite(text string, marks map[string]int) (wantedSite, error) {
	m := siteForm.FindStringSubmatch(text)
	if m == nil {
		return wantedSite{}, errForm
	}
	s := wantedSite{role: m[1], call: m[2], function: m[3], mark: m[4], line: marks[m[4]]}
	if m[5] != "" {
		stream, _ := strconv.ParseInt(m[5], 10, 32)
		task, _ := strconv.ParseUint(m[6], 10, 32)
		s.stream, s.task = int32(stream), uint32(task)
	}
	if s.mark != "" && s.line == 0 {
		return s, fmt.Errorf("no line is marked %s", s.mark)
	}
	return s, nil
}

// compare says how a report differs from what is wanted: exactly one finding, with this rule, these places, these
// bytes.
func (w *wanted) compare(report *finding.Report) error {
	if len(report.Findings) != 1 {
		return fmt.Errorf("%d findings, want 1: %s", len(report.Findings), w.rule)
	}
	f := report.Findings[0]
	rule := finding.ByName(w.rule)
	switch {
	case f.Rule != w.rule || string(f.Severity) != w.severity:
		return fmt.Errorf("found %s (%s), want %s (%s)", f.Rule, f.Severity, w.rule, w.severity)
	case w.count != 0 && f.Count != w.count:
		return fmt.Errorf("count is %d, want %d", f.Count, w.count)
	case f.Summary == "" || f.Advice == "" || f.Process == 0:
		return fmt.Errorf("summary, advice (%q) or process is missing", rule.Advice)
	}
	first, rest := w.offence, w.others
	if w.rule == "stream-race" && !w.fits(first, &f.Offence) { // either task may come second
		first, rest = w.others[0], append([]wantedSite{w.offence}, w.others[1:]...)
	}
	if !w.fits(first, &f.Offence) {
		return fmt.Errorf("offence is\n%s\nwant\n%s", siteText(&f.Offence), w.siteText(first))
	}
	for _, s := range rest {
		if !slices.ContainsFunc(f.Others, func(o finding.Site) bool { return w.fits(s, &o) }) {
			text := ""
			for i := range f.Others {
				text += siteText(&f.Others[i]) + "\n"
			}
			return fmt.Errorf("others are\n%swant among them\n%s", text, w.siteText(s))
		}
	}
	return w.bytes.compare(f.Bytes)
}

// fits reports whether a site is the one that is wanted.
func (w *wanted) fits(s wantedSite, o *finding.Site) bool {
	call, _, _ := strings.Cut(o.Call, "(")
	if o.Role != s.role || call != s.call || o.Task != s.task || s.task != 0 && (o.Stream == nil ||
		*o.Stream != s.stream) {
		return false
	}
	switch {
	case s.mark != "":
		frame := ownFrame(o.Stack, w.name)
		return frame != nil && plainName(frame.Function) == s.function && frame.Line == s.line
	case s.function != "":
		return slices.ContainsFunc(o.Stack, func(f finding.Frame) bool { return plainName(f.Function) == s.function })
	}
	return true
}

func (w *wantedBytes) compare(b *finding.Bytes) error {
	switch {
	case w == nil:
		return nil
	case b == nil || b.Allocation == nil:
		return errors.New("there are no bytes, or they are in no allocation")
	case b.Offset != w.offset && !w.anywhere, w.anywhere && uint64(b.Offset)+b.Length > w.size, w.length != 0 &&
		b.Length != w.length,
		b.Length == 0, b.Allocation.Kind != w.kind, b.Allocation.Size != w.size, b.Address != b.Allocation.Start+
			uint64(b.Offset):
		return fmt.Errorf("bytes are %v, want %s", b, w.text)
	}
	return nil
}

func (w *wanted) siteText(s wantedSite) string {
	text := fmt.Sprintf("  %s %s in %s", s.role, s.call, s.function)
	if s.mark != "" {
		text += fmt.Sprintf(" at %s:%d", w.name, s.line)
	}
	if s.task != 0 {
		text += fmt.Sprintf(" on stream %d, task %d", s.stream, s.task)
	}
	return text
}

func siteText(s *finding.Site) string {
	text := fmt.Sprintf("  %s %s", s.Role, s.Call)
	if s.Stream != nil {
		text += fmt.Sprintf(" on stream %d, task %d", *s.Stream, s.Task)
	}
	for _, f := range s.Stack {
		text += fmt.Sprintf("\n    %s %s:%d", f.Function, f.File, f.Line)
	}
	return text
}
