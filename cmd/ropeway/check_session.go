package main

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"ropeway/internal/finding"
	"ropeway/internal/ui"
	"ropeway/internal/version"
)

// checkSession is one "ropeway check": its runs, and what their processes report.
type checkSession struct {
	a            *app
	o            *checkOptions
	out          *ui.Output // standard error
	layout       finding.Layout
	suppressions []*finding.Suppression
	last         ending                   // of the program's last run
	replay       func(seed uint64) string // the command for one seed
	page         *pageRecorder            // nil without --report

	mu     sync.Mutex
	report *finding.Report
	fold   finding.Fold
	run    *finding.Run // the current one
	from   []*sender    // of the current run, as in run.Processes
	shown  int
	asides []*finding.Finding // of the current run: told if the program fails
}

func newCheckSession(a *app, o *checkOptions, rules []string, suppressions []*finding.Suppression) *checkSession {
	s := &checkSession{a: a, o: o, out: ui.New(a.stderr, a.getenv), suppressions: suppressions}
	s.layout = finding.Layout{Style: s.out}
	s.layout.Dir, _ = os.Getwd()
	if s.out.Width != nil {
		s.layout.Width = min(max(s.out.Width(), leastWidth), mostWidth)
	}
	s.report = &finding.Report{Version: version.Ropeway, Started: time.Now(), Rules: rules}
	if o.failOn != "never" {
		s.report.FailOn = finding.Severity(o.failOn)
	}
	for _, what := range o.inject {
		if !slices.ContainsFunc(s.report.Injected, func(shot finding.Shot) bool { return shot.What == what }) {
			s.report.Injected = append(s.report.Injected, finding.Shot{What: what})
		}
	}
	return s
}

// runAll runs the program with one seed after the other, until it fails by itself or is interrupted.
func (s *checkSession) runAll(program *launch) error {
	s.report.Command = program.args
	dir, err := socketDir()
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	signals := catchSignals()
	defer signal.Stop(signals)
	for i := range s.o.schedules {
		seed := s.o.seed + uint64(i)
		if s.o.schedules > 1 && s.out.Live {
			s.write(s.out.Dim(fmt.Sprintf("ropeway check: schedule %d of %d, seed %d", i+1, s.o.schedules, seed)) + "\n")
		}
		if err := s.runOnce(program, filepath.Join(dir, fmt.Sprintf("report-%d", i)), seed, signals); err != nil {
			return err
		}
		if s.last.code != 0 || s.last.interrupted {
			break
		}
	}
	s.report.Seconds = time.Since(s.report.Started).Seconds()
	return nil
}

func (s *checkSession) runOnce(program *launch, socket string, seed uint64, signals chan os.Signal) error {
	s.run, s.from, s.asides = &finding.Run{Seed: seed, Processes: []*finding.Process{}}, nil, nil
	s.report.Runs = append(s.report.Runs, s.run)
	more, err := s.page.begin(seed)
	if err != nil {
		return err
	}
	l, err := listen(socket, s)
	if err != nil {
		return &failure{err: fmt.Errorf("no socket for the reports: %w", err), next: "set TMPDIR to a directory on a local file system"}
	}
	s.last, err = runChild(program, append(s.o.variables(seed, socket), more...), signals)
	alive := l.close()
	defer s.page.end()
	if err != nil {
		return err
	}
	for len(signals) > 0 {
		s.last.interrupted = interrupts(<-signals) || s.last.interrupted
	}
	s.run.ExitCode = s.last.code
	if s.last.signal != 0 {
		s.run.Signal = unix.SignalName(s.last.signal)
	}
	if s.last.code != 0 {
		s.tellAsides()
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

// unsaid is about a process that has ended without its last report. Of the program itself it is known how it ended: if all went well, a
// runtime that is open is a mistake of its own. Others may have been killed.
func (s *checkSession) unsaid(from *sender) {
	text := " ended without its last report: it was killed or called _exit; findings may be incomplete"
	switch {
	case from.open != nil && from.process.ID == s.last.process && s.last.code == 0:
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

// write writes to standard error at once, so that lines of the program do not come between.
func (s *checkSession) write(text string) { io.WriteString(s.out.W, text) } //nolint:errcheck // there is nowhere to say so

// connected begins a process. It is listed when it says who it is.
func (s *checkSession) connected(pid int) *sender {
	return &sender{process: &finding.Process{ID: pid}}
}

func (s *checkSession) record(from *sender, r *finding.Record) {
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

// fired takes how often a process has injected a fault so far.
func (s *checkSession) fired(from *sender, shot finding.Shot) {
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
}

// forkAfterInit is the one rule whose findings come from processes that cannot be checked.
const forkAfterInit = "fork-after-init"

// finding takes one of a process. mu is held.
func (s *checkSession) finding(from *sender, f *finding.Finding) {
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

// tellAsides shows what the program knew and what may be why it failed.
func (s *checkSession) tellAsides() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.asides {
		s.take(f)
	}
}

// take enters a finding, and shows it if it is new and not suppressed. mu is held.
func (s *checkSession) take(f *finding.Finding) *finding.Entry {
	e, isNew := s.fold.Add(f, s.run.Seed)
	if isNew {
		if by := finding.Suppressor(s.suppressions, &e.Finding); by != nil {
			by.Used++
			e.Suppressed = by.Name
		}
	}
	if e.Severity != finding.Notice {
		s.page.take(e)
	}
	if isNew && e.Suppressed == "" && (s.o.most == 0 || s.shown < s.o.most) {
		s.shown++
		s.write(s.layout.Text(&e.Finding) + "\n")
	}
	return e
}

// end takes the last words of a process.
func (s *checkSession) end(from *sender, end *finding.End) {
	from.process.Ended = true
	from.process.Tasks, from.process.Calls = end.Tasks, end.Calls
	for i, e := range from.entries {
		if i < len(end.Counts) && e != nil {
			e.Count += max(0, end.Counts[i]-1) // one was counted when it came
		}
	}
	for _, shot := range end.Injected {
		s.fired(from, shot)
	}
}

// garbage notes, once for each process, that something cannot be read.
func (s *checkSession) garbage(from *sender, why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !from.bad {
		from.bad = true
		s.noteLocked(name(from.process) + " sent " + why + "; findings may be missing")
	}
}

func (s *checkSession) note(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.noteLocked(text)
}

func (s *checkSession) noteLocked(text string) {
	for i := range s.report.Notes {
		if s.report.Notes[i].Text == text {
			s.report.Notes[i].Times++
			return
		}
	}
	s.report.Notes = append(s.report.Notes, finding.Note{Text: text, Times: 1})
}
