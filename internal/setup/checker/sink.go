package checker

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"

	"ropeway/internal/check"
	"ropeway/internal/finding"
)

// connect returns a sink that sends records to a Unix socket. If that fails, records are lost and the program
// continues.
func connect(path string) (check.Sink, error) {
	c, err := net.Dial("unix", path)
	if err != nil {
		return nil, fmt.Errorf("no process receives the report: %w", err)
	}
	return &socketSink{w: bufio.NewWriter(c), c: c}, nil
}

type socketSink struct {
	w *bufio.Writer
	c net.Conn
}

// send writes a record and flushes it, since the process may end at any moment.
func (s *socketSink) send(r finding.Record) {
	if s.w == nil {
		return
	}
	line, err := json.Marshal(r)
	if err == nil {
		s.w.Write(line) //nolint:errcheck // Flush returns the error
		s.w.WriteByte('\n')
		err = s.w.Flush()
	}
	if err != nil {
		s.w = nil
	}
}

func (s *socketSink) Start(x finding.Start)      { s.send(finding.Record{Start: &x}) }
func (s *socketSink) Finding(f *finding.Finding) { s.send(finding.Record{Finding: f}) }
func (s *socketSink) Note(text string)           { s.send(finding.Record{Note: text}) }

// Fired does not wait for the end: the program may die of the fault.
func (s *socketSink) Fired(x finding.Shot) { s.send(finding.Record{Fired: &x}) }

// Unclosed sends a finding that is only valid if no End record follows.
func (s *socketSink) Unclosed(f *finding.Finding) { s.send(finding.Record{Unclosed: f}) }

// End is the last record: the receiver need not wait for the end of the process.
func (s *socketSink) End(e finding.End) {
	s.send(finding.Record{End: &e})
	s.w = nil
	s.c.Close() //nolint:errcheck // everything was sent
}

// suppressing marks findings that a suppression describes as known, and passes them on.
type suppressing struct {
	check.Sink
	list []*finding.Suppression
}

func (s *suppressing) Finding(f *finding.Finding) {
	f.Known = finding.Suppressor(s.list, f) != nil
	s.Sink.Finding(f)
}

// textSink prints findings as they happen, and their number at the end.
type textSink struct {
	w      io.Writer
	n      int
	layout finding.Layout
}

func (s *textSink) Start(finding.Start) {}
func (s *textSink) Finding(f *finding.Finding) {
	if f.Aside() || f.Known {
		return
	}
	if f.Counts() {
		s.n++
	}
	if !f.Told {
		io.WriteString(s.w, s.layout.Text(f)) //nolint:errcheck // there is no other place to report it
	}
}
func (s *textSink) Note(text string)          { fmt.Fprintln(s.w, "ropeway: check:", text) }
func (s *textSink) Fired(finding.Shot)        {}
func (s *textSink) Unclosed(*finding.Finding) {}
func (s *textSink) End(finding.End) {
	if s.n > 0 {
		fmt.Fprintf(s.w, "ropeway: check: %s\n", finding.Plural(s.n, "finding"))
	}
}
