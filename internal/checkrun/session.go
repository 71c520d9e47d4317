// Package checkrun runs a program under the checker: it listens to what the processes of each run report, folds it into
// one report, and writes that report, its summary and the page with the timeline.
package checkrun

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"ropeway/internal/finding"
	"ropeway/internal/ui"
)

// Options are what "ropeway check" was asked for.
type Options struct {
	Schedules    int              // how many runs there are at most
	Most         int              // findings that are shown; 0: all
	FailOn       finding.Severity // the least that counts; "": none does
	ErrorCode    int              // exit code if findings count
	Inject       []string         // faults
	Rules        []string         // that are checked
	Suppressions []*finding.Suppression
	Version      string // of this program
	Page         bool   // runs are recorded, for the page
	Docs         string // address of the documentation that the page links to; "": none

	Interrupted func() bool // whether a signal has asked for an end since the program ended
}

// Ending is how a program ended.
type Ending struct {
	Process     int            // of the program
	Code        int            // of the program; 128 and its number for a signal
	Signal      syscall.Signal // that ended it, or 0
	Core        bool           // and its memory was written to a file
	Interrupted bool           // a signal asked it, or us, to end
}

// String names the signal, for example "SIGSEGV (segmentation fault, core dumped)".
func (e Ending) String() string {
	text := unix.SignalName(e.Signal) + " (" + e.Signal.String()
	if e.Core {
		text += ", core dumped"
	}
	return text + ")"
}

// Interrupting are the signals that ask a program to end.
var Interrupting = []os.Signal{syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGHUP}

// Interrupts reports whether a signal asks for an end.
func Interrupts(s os.Signal) bool { return slices.Contains(Interrupting, s) }

// Start runs the program once with a seed, until it has ended. Its processes report to the socket, and record to the
// directory unless that is "".
type Start func(seed uint64, socket, recording string) (Ending, error)

// Session is one "ropeway check": its runs, and what their processes report.
type Session struct {
	o      Options        // immutable
	out    *ui.Output     // standard error
	layout finding.Layout // immutable
	last   Ending         // of the program's last run
	page   *pageRecorder  // nil without Options.Page

	mu     sync.Mutex
	report *finding.Report
	fold   finding.Fold
	run    *finding.Run // the current one
	from   []*sender    // of the current run, as in run.Processes
	shown  int
	asides []*finding.Finding // of the current run: shown if the program fails
}

// New makes a session that writes to out, lines as wide as width; 0 is any width. Close it.
func New(o Options, out *ui.Output, width int) *Session {
	s := &Session{o: o, out: out, layout: finding.Layout{Style: out, Width: width}}
	s.layout.Dir, _ = os.Getwd()
	s.report = &finding.Report{Version: o.Version, Started: time.Now(), Rules: o.Rules, FailOn: o.FailOn}
	for _, what := range o.Inject {
		if !slices.ContainsFunc(s.report.Injected, func(shot finding.Shot) bool { return shot.What == what }) {
			s.report.Injected = append(s.report.Injected, finding.Shot{What: what})
		}
	}
	if o.Page {
		s.page = &pageRecorder{}
	}
	return s
}

// Close removes what was recorded.
func (s *Session) Close() { s.page.close() }

// RunAll runs the program with one seed after the other, until it fails by itself or is interrupted.
func (s *Session) RunAll(command []string, seed uint64, start Start) error {
	s.report.Command = command
	dir, err := socketDir()
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	for i := range s.o.Schedules {
		seed := seed + uint64(i)
		if s.o.Schedules > 1 && s.out.Live {
			s.write(s.out.Dim(fmt.Sprintf("ropeway check: schedule %d of %d, seed %d", i+1, s.o.Schedules, seed)) +
				"\n")
		}
		if err := s.runOnce(filepath.Join(dir, fmt.Sprintf("report-%d", i)), seed, start); err != nil {
			return err
		}
		if s.last.Code != 0 || s.last.Interrupted {
			break
		}
	}
	s.report.Seconds = time.Since(s.report.Started).Seconds()
	return nil
}

func (s *Session) runOnce(socket string, seed uint64, start Start) error {
	s.run, s.from, s.asides = &finding.Run{Seed: seed, Processes: []*finding.Process{}}, nil, nil
	s.report.Runs = append(s.report.Runs, s.run)
	recording, err := s.page.begin(seed)
	if err != nil {
		return err
	}
	l, err := listen(socket, s)
	if err != nil {
		return &ui.Advice{Err: fmt.Errorf("no socket for the reports: %w", err),
			Next: "set TMPDIR to a directory on a local file system"}
	}
	s.last, err = start(seed, socket, recording)
	alive := l.close()
	defer s.page.end()
	if err != nil {
		return err
	}
	s.last.Interrupted = s.o.Interrupted() || s.last.Interrupted
	s.run.ExitCode = s.last.Code
	if s.last.Signal != 0 {
		s.run.Signal = unix.SignalName(s.last.Signal)
	}
	if s.last.Code != 0 {
		s.showAsides()
	}
	for _, from := range alive {
		s.note(name(from.process) + " goes on after the program has ended; what it does from now on is not seen")
	}
	for _, from := range s.from {
		if !from.process.Ended && !slices.Contains(alive, from) {
			s.unsaid(from)
		}
	}
	return nil
}

// unsaid is about a process that has ended without its last report. Of the program itself it is known how it ended: if
// all went well, a runtime that is open is a mistake of its own. Others may have been killed.
func (s *Session) unsaid(from *sender) {
	text := " ended without its last report: it was killed or called _exit; findings may be incomplete"
	switch {
	case from.open != nil && from.process.ID == s.last.Process && s.last.Code == 0:
		s.mu.Lock()
		defer s.mu.Unlock()
		s.finding(from, from.open)
		return
	case from.open != nil:
		text = " ended without closing its runtime, or was killed; findings may be incomplete"
	}
	s.note(name(from.process) + text)
}

// name is a process in words.
func name(p *finding.Process) string {
	text := "a process"
	if p.ID != 0 {
		text = fmt.Sprintf("process %d", p.ID)
	}
	if len(p.Command) > 0 {
		text += " (" + strings.Join(p.Command, " ") + ")"
	}
	return text
}

// write writes to standard error at once, so that lines of the program do not come between. An error has nowhere to
// go.
func (s *Session) write(text string) { io.WriteString(s.out.W, text) } //nolint:errcheck

// connected begins a process. It is listed when it introduces itself.
func (s *Session) connected(pid int) *sender {
	return &sender{process: &finding.Process{ID: pid}}
}

func (s *Session) record(from *sender, r *finding.Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Start != nil && !from.started {
		from.started = true
		from.process.Command = r.Start.Command
		if r.Start.Process != 0 {
			from.process.ID = r.Start.Process
		}
		s.run.Processes = append(s.run.Processes, from.process)
		s.from = append(s.from, from)
	}
	if r.Finding != nil {
		s.finding(from, r.Finding)
	}
	if r.Note != "" {
		s.noteLocked(r.Note)
	}
	if r.Unclosed != nil {
		from.open = r.Unclosed
	}
	if r.Fired != nil {
		s.fired(from, *r.Fired)
	}
	if r.End != nil {
		s.end(from, r.End)
	}
}

// fired takes how often a process has injected a fault so far, and returns what is known of the fault.
func (s *Session) fired(from *sender, shot finding.Shot) *finding.Shot {
	i := slices.IndexFunc(s.report.Injected, func(known finding.Shot) bool { return known.What == shot.What })
	if i < 0 {
		i = len(s.report.Injected) // from the environment
		s.report.Injected = append(s.report.Injected, finding.Shot{What: shot.What})
	}
	if from.fired == nil {
		from.fired = map[string]int{}
	}
	s.report.Injected[i].Times += max(0, shot.Times-from.fired[shot.What])
	from.fired[shot.What] = max(shot.Times, from.fired[shot.What])
	return &s.report.Injected[i]
}

// forkAfterInit is the one rule whose findings come from processes that cannot be checked.
const forkAfterInit = "fork-after-init"

// finding takes one of a process. mu is held.
func (s *Session) finding(from *sender, f *finding.Finding) {
	if finding.ByName(f.Rule) != nil && !slices.Contains(s.report.Rules, f.Rule) {
		from.entries = append(from.entries, nil)
		return
	}
	if f.Process == 0 {
		f.Process = from.process.ID
	}
	if f.Rule == forkAfterInit {
		from.process.Ended = true // a forked child has no core: it says this and nothing else
	}
	if f.Aside() {
		s.asides = append(s.asides, f)
		from.entries = append(from.entries, nil)
		return
	}
	from.entries = append(from.entries, s.take(f))
}

// showAsides shows what the program knew and what may be why it failed.
func (s *Session) showAsides() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.asides {
		s.take(f)
	}
}

// take enters a finding, and shows it if it is new and not suppressed. mu is held.
func (s *Session) take(f *finding.Finding) *finding.Entry {
	e, isNew := s.fold.Add(f, s.run.Seed)
	if isNew {
		if by := finding.Suppressor(s.o.Suppressions, &e.Finding); by != nil {
			by.Used++
			e.Suppressed = by.Name
		}
	}
	if e.Severity != finding.Notice {
		s.page.take(e)
	}
	if isNew && e.Suppressed == "" && (s.o.Most == 0 || s.shown < s.o.Most) {
		s.shown++
		s.write(s.layout.Text(&e.Finding) + "\n")
	}
	return e
}

// end takes the last record of a process.
func (s *Session) end(from *sender, end *finding.End) {
	from.process.Ended = true
	from.process.Tasks, from.process.Calls = end.Tasks, end.Calls
	for i, e := range from.entries {
		if i < len(end.Counts) && e != nil {
			e.Count += max(0, end.Counts[i]-1) // one was counted when it came
		}
	}
	for _, shot := range end.Injected {
		known := s.fired(from, shot)
		known.Calls, known.Able, known.Armed = known.Calls+shot.Calls, known.Able+shot.Able, known.Armed+shot.Armed
	}
}

// garbage notes, once for each process, that something cannot be read.
func (s *Session) garbage(from *sender, why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !from.bad {
		from.bad = true
		s.noteLocked(name(from.process) + " sent " + why + "; findings may be missing")
	}
}

func (s *Session) note(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.noteLocked(text)
}

func (s *Session) noteLocked(text string) {
	for i := range s.report.Notes {
		if s.report.Notes[i].Text == text {
			s.report.Notes[i].Times++
			return
		}
	}
	s.report.Notes = append(s.report.Notes, finding.Note{Text: text, Times: 1})
}
