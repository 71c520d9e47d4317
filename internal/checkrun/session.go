// Package checkrun runs a program under the checker. It collects the records of the processes of each run in one
// report, and writes that report, its summary and the page with the timeline.
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

// Options are the options of "ropeway check".
type Options struct {
	Schedules    int              // limit of the runs
	Most         int              // limit of the findings shown; 0: no limit
	FailOn       finding.Severity // least severity that counts; "": none counts
	ErrorCode    int              // exit code if findings count
	NothingCode  int              // exit code if no process reported, and the program ended with 0
	Inject       []string         // faults to inject
	Rules        []string         // enabled rules
	Suppressions []*finding.Suppression
	Version      string // version of this program
	Page         bool   // record runs, for the page
	Docs         string // address of the documentation that the page links to; "": none

	Interrupted func() bool // reports whether a signal has asked for an end since the program ended
}

// Ending tells how a program ended.
type Ending struct {
	Process     int            // process id of the program
	Code        int            // exit code; 128 plus its number for a signal
	Signal      syscall.Signal // signal that ended it, or 0
	Core        bool           // the signal wrote a core file
	Interrupted bool           // a signal asked the program, or ropeway, to end
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

// Session is one run of "ropeway check": the runs of the program, and the reports of its processes.
type Session struct {
	o      Options        // immutable
	out    *ui.Output     // standard error
	layout finding.Layout // immutable
	last   Ending         // end of the program's last run
	page   *pageRecorder  // nil without Options.Page

	mu     sync.Mutex
	report *finding.Report
	fold   finding.Fold
	run    *finding.Run // the current one
	from   []*sender    // processes of the current run, as in run.Processes
	shown  int
	asides []aside // findings of the current run to show if the program fails
}

// aside is a finding that is shown only if the program fails.
type aside struct {
	from    *sender
	finding *finding.Finding
}

// New makes a session that writes to out, in lines of width columns; 0 is any width. The caller closes it.
func New(o Options, out *ui.Output, width int) *Session {
	s := &Session{o: o, out: out, layout: finding.Layout{Style: out, Width: width, Sources: &finding.Sources{}}}
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

// Close removes the recording.
func (s *Session) Close() { s.page.close() }

// RunAll runs the program with one seed after another, until it fails by itself or is interrupted.
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

// unsaid handles a process that has ended without its last record. For the program itself the end is known: if it went
// well, a runtime left open is a mistake. Other processes may have been killed.
func (s *Session) unsaid(from *sender) {
	for _, e := range from.told { // the process would have printed them at the end of its test
		s.show(e)
	}
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

// name describes a process.
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

// write writes to standard error at once, so that lines of the program do not come between. Its errors cannot be
// reported.
func (s *Session) write(text string) { io.WriteString(s.out.W, text) } //nolint:errcheck

// connected adds a process. It is listed after it introduces itself.
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

// fired takes the number of faults that a process has injected so far, and returns the totals of the fault.
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

// forkAfterInit is the only rule with findings from processes that cannot be checked.
const forkAfterInit = "fork-after-init"

// finding takes a finding of a process. mu is held.
func (s *Session) finding(from *sender, f *finding.Finding) {
	if finding.ByName(f.Rule) != nil && !slices.Contains(s.report.Rules, f.Rule) {
		from.entries = append(from.entries, nil)
		return
	}
	if f.Process == 0 {
		f.Process = from.process.ID
	}
	if f.Rule == forkAfterInit {
		from.process.Ended = true // a forked child has no core: it sends only this
	}
	if f.Aside() {
		s.asides = append(s.asides, aside{from, f})
		from.entries = append(from.entries, nil)
		return
	}
	from.entries = append(from.entries, s.take(from, f))
}

// showAsides shows the findings that may tell why the program failed.
func (s *Session) showAsides() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.asides {
		s.take(f.from, f.finding)
	}
}

// take adds a finding to the report, and shows it if it is new and not suppressed. mu is held.
func (s *Session) take(from *sender, f *finding.Finding) *finding.Entry {
	told := f.Told
	f.Told = false
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
		if told {
			from.told = append(from.told, e)
		} else {
			s.show(e)
		}
	}
	return e
}

// show writes a finding.
func (s *Session) show(e *finding.Entry) { s.write(s.layout.Text(&e.Finding) + "\n") }

// end takes the last record of a process.
func (s *Session) end(from *sender, end *finding.End) {
	from.process.Ended = true
	from.process.Tasks, from.process.Calls = end.Tasks, end.Calls
	for i, e := range from.entries {
		if i < len(end.Counts) && e != nil {
			e.Count += max(0, end.Counts[i]-1) // one was counted at its arrival
		}
	}
	for _, shot := range end.Injected {
		known := s.fired(from, shot)
		known.Calls, known.Able, known.Armed = known.Calls+shot.Calls, known.Able+shot.Able, known.Armed+shot.Armed
	}
}

// garbage reports, once for each process, a record that cannot be read.
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
