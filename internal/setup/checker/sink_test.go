package checker

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"ropeway/internal/finding"
	"ropeway/internal/testenv"
)

// listen is a socket with a listener.
func listen(t *testing.T) (path string, l net.Listener) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "report")
	l, err := net.Listen("unix", path)
	testenv.OK(t, err)
	t.Cleanup(func() { l.Close() })
	return path, l
}

// TestSocketSink sends one record of each kind and reads them at the other end, one line each, before the next is
// sent: a process may end at any moment.
func TestSocketSink(t *testing.T) {
	path, l := listen(t)
	s, err := connect(path)
	testenv.OK(t, err)
	conn, err := l.Accept()
	testenv.OK(t, err)
	defer conn.Close()
	lines := bufio.NewReader(conn)
	start := finding.Start{Process: 1, Command: []string{"a", "b c"}, Seed: 3, Depth: 4}
	found := &finding.Finding{Rule: "leak", Summary: "two\nlines", Count: 1}
	shot := finding.Shot{What: "x", Times: 1}
	end := finding.End{Counts: []int{2}, Tasks: 5, Calls: 6, Injected: []finding.Shot{{What: "x", Times: 1}}}
	for _, step := range []struct {
		send func()
		want finding.Record
	}{
		{func() { s.Start(start) }, finding.Record{Start: &start}},
		{func() { s.Finding(found) }, finding.Record{Finding: found}},
		{func() { s.Note("a note") }, finding.Record{Note: "a note"}},
		{func() { s.Fired(shot) }, finding.Record{Fired: &shot}},
		{func() { s.Unclosed(found) }, finding.Record{Unclosed: found}},
		{func() { s.End(end) }, finding.Record{End: &end}},
	} {
		step.send()
		line, err := lines.ReadBytes('\n')
		testenv.OK(t, err)
		var got finding.Record
		if err := json.Unmarshal(line, &got); err != nil || !reflect.DeepEqual(got, step.want) {
			t.Errorf("%s: got %+v, %v", line, got, err)
		}
	}
	if _, err := lines.ReadByte(); err != io.EOF {
		t.Errorf("behind the end there is %v, want the end of the connection", err)
	}
	s.Note("too late") // and no harm is done
}

// TestSocketSinkLosesItsListener proves that a checked program goes on when its findings are not received any more.
func TestSocketSinkLosesItsListener(t *testing.T) {
	path, l := listen(t)
	s, err := connect(path)
	testenv.OK(t, err)
	conn, err := l.Accept()
	testenv.OK(t, err)
	conn.Close()
	for range 1000 { // far more than a socket has room for
		s.Finding(&finding.Finding{Summary: strings.Repeat("x", 1000)})
	}
	s.Note("still here")
	s.End(finding.End{})
	if s.(*socketSink).w != nil {
		t.Error("it still sends")
	}
}

func TestSocketSinkWithoutListener(t *testing.T) {
	s, err := connect(filepath.Join(t.TempDir(), "nobody"))
	if err == nil || s != nil || !strings.Contains(err.Error(), "no process receives the report") {
		t.Errorf("got %v, %v", s, err)
	}
}

// TestSuppressing: a finding that a suppression describes is not printed, and does not count in the program.
func TestSuppressing(t *testing.T) {
	var b bytes.Buffer
	s := &suppressing{&textSink{w: &b}, []*finding.Suppression{{Name: "known", Rule: "leak"}}}
	for _, rule := range []string{"leak", "double-free"} {
		f := &finding.Finding{Rule: rule, Severity: finding.Error}
		s.Finding(f)
		if f.Counts() != (rule != "leak") {
			t.Errorf("%s counts: %t", rule, f.Counts())
		}
	}
	s.End(finding.End{})
	if text := b.String(); strings.Contains(text, "leak") || !strings.Contains(text, "double-free") ||
		!strings.Contains(text, "1 finding\n") {
		t.Errorf("it printed %s", text)
	}
}

// TestTextSink: findings and notes as they happen, their number at the end, nothing for a program without any.
func TestTextSink(t *testing.T) {
	var b bytes.Buffer
	s := &textSink{w: &b}
	s.Start(finding.Start{})
	s.End(finding.End{})
	if b.Len() != 0 {
		t.Errorf("a program without findings has %q", &b)
	}
	s.Note("cannot see")
	f := &finding.Finding{Rule: "leak", Severity: finding.Error, Summary: "a stream is never destroyed",
		Advice:  "Destroy it.",
		Offence: finding.Site{Role: "made", Stack: []finding.Frame{{Function: "main", File: "a.c", Line: 7}}}}
	s.Finding(f)
	s.Finding(f)
	s.End(finding.End{})
	text := b.String()
	for _, want := range []string{"cannot see", "leak", "a stream is never destroyed", "a.c:7", "2 findings"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in %s", want, text)
		}
	}
}
