package checkrun

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"ropeway/internal/finding"
	"ropeway/internal/ui"
)

// Finish completes the report and writes the summary. replay returns the command that runs one seed again.
func (s *Session) Finish(replay func(seed uint64) string) {
	r := s.report
	shown := 0
	for _, e := range s.fold.Entries {
		if e.Suppressed == "" {
			if shown++; s.o.Most > 0 && shown > s.o.Most {
				r.Hidden++
				continue
			}
		}
		r.Findings = append(r.Findings, e)
	}
	for _, e := range s.counted() {
		for _, run := range r.Runs {
			if e.Severity != finding.Notice && slices.Contains(e.Seeds, run.Seed) {
				run.Findings++
			}
		}
	}
	for _, by := range s.o.Suppressions {
		if by.Used == 0 {
			r.Unused = append(r.Unused, fmt.Sprintf("[%s] %s", by.Name, by.From))
		}
	}
	first := slices.IndexFunc(r.Runs, func(run *finding.Run) bool { return run.Findings > 0 })
	if s.o.Schedules > 1 && first >= 0 {
		r.Replay = replay(r.Runs[first].Seed)
	}
	r.ExitCode = s.ExitCode()
	s.write(strings.Join(s.summary(), "\n") + "\n")
}

// counted returns the findings that are not suppressed, shown or not.
func (s *Session) counted() (list []*finding.Entry) {
	for _, e := range s.fold.Entries {
		if e.Suppressed == "" {
			list = append(list, e)
		}
	}
	return list
}

// ExitCode returns the exit code of the check. Findings override the program's own code, unless a signal asked it to
// end. A program that ends well and was not checked fails, too.
func (s *Session) ExitCode() int {
	if Interrupts(s.last.Signal) {
		return s.last.Code
	}
	for _, e := range s.counted() {
		if e.Severity.AtLeast(s.report.FailOn) {
			return s.o.ErrorCode
		}
	}
	if s.last.Code == 0 && s.nothing() {
		return s.o.NothingCode
	}
	return s.last.Code
}

// summary returns the lines of the summary.
func (s *Session) summary() (lines []string) {
	say := func(format string, args ...any) {
		lines = append(lines, ui.Fold("  "+finding.Printable(fmt.Sprintf(format, args...)), s.layout.Width)...)
	}
	const name = "ropeway check:"
	lines = ui.Fold(name+" "+s.headline()+" in "+finding.Printable(s.extent()), s.layout.Width)
	lines[0] = s.out.Bold(name) + strings.TrimPrefix(lines[0], name)
	lines = append(lines, s.byRule()...)
	if n := s.report.Hidden; n > 0 {
		say("not shown: %s beyond --max-findings %d", finding.Plural(n, "finding"), s.o.Most)
	}
	if n := len(s.fold.Entries) - len(s.counted()); n > 0 {
		say("suppressed: %s", finding.Plural(n, "finding"))
	}
	for _, u := range s.report.Unused {
		say("unused suppression: %s", u)
	}
	for _, shot := range s.report.Injected {
		switch shot.Times {
		case 0:
			say("injected: %s never fired%s", shot.What, s.whyNot(shot))
		default:
			say("injected: %s fired %s", shot.What, times(shot.Times))
		}
	}
	for _, n := range s.report.Notes {
		text := n.Text
		if n.Times > 1 {
			text += " (" + times(n.Times) + ")"
		}
		say("note: %s", text)
	}
	s.programLines(say)
	if r := s.report.Replay; r != "" {
		lines = append(lines, "  replay the first: "+finding.Printable(r)) // on one line, for copying
	}
	return lines
}

// whyNot returns, after a colon, the reason why a fault never fired; "" if it is unknown.
func (s *Session) whyNot(shot finding.Shot) string {
	switch {
	case shot.Armed > 0:
		return ": its task did not run"
	case shot.Able > 0:
		return fmt.Sprintf(": the program made this call %s", times(shot.Able))
	case shot.Calls > 0:
		return fmt.Sprintf(": the program made this call %s, and submitted no task by it; /submit lets the call fail",
			times(shot.Calls))
	}
	for _, run := range s.report.Runs {
		for _, p := range run.Processes {
			if !p.Ended {
				return ""
			}
		}
	}
	return ": the program did not make this call"
}

// headline returns the number of findings. It says "no findings" only of a program that ended by itself.
func (s *Session) headline() string {
	n, notes := 0, ""
	for _, e := range s.counted() {
		if e.Severity != finding.Notice {
			n++
		}
	}
	if more := len(s.counted()) - n; more > 0 {
		notes = ", " + finding.Plural(more, "note")
	}
	found := s.out.Bad(finding.Plural(n, "finding")) + notes
	switch end := s.last.Signal; {
	case end != 0 && n > 0:
		return "ended by " + unix.SignalName(end) + " after " + found
	case end != 0:
		return s.out.Bad("ended by "+unix.SignalName(end)) + " before anything was found" + notes
	case n > 0:
		return found
	case s.nothing():
		return s.out.Bad("nothing was checked")
	}
	return "no findings" + notes
}

// extent describes the runs.
func (s *Session) extent() string {
	r := s.report
	processes, tasks := 0, uint64(0)
	for _, run := range r.Runs {
		processes += len(run.Processes)
		for _, p := range run.Processes {
			tasks += p.Tasks
		}
	}
	runs := fmt.Sprintf("seed %d", r.Runs[0].Seed)
	if len(r.Runs) > 1 {
		runs = fmt.Sprintf("%d runs, seeds %d to %d", len(r.Runs), r.Runs[0].Seed, r.Runs[len(r.Runs)-1].Seed)
	}
	what := "processes"
	if processes == 1 {
		what = "process"
	}
	return fmt.Sprintf("%s (%d %s, %s, %s)", r.Command[0], processes, what, finding.Plural(int(tasks), "task"), runs)
}

// byRule returns the numbers of findings, by severity from the worst and then in the order of rules.
func (s *Session) byRule() (lines []string) {
	type kind struct {
		rule  string
		level finding.Severity
	}
	type sum struct{ findings, times int }
	sums := map[kind]*sum{}
	names, explained := finding.RuleNames(), map[string]bool{}
	for _, e := range s.counted() {
		k := kind{e.Rule, e.Severity}
		if sums[k] == nil {
			sums[k] = &sum{}
			if !slices.Contains(names, e.Rule) {
				names = append(names, e.Rule)
			}
		}
		sums[k].findings++
		sums[k].times += e.Count
	}
	for _, level := range []finding.Severity{finding.Error, finding.Warning, finding.Notice} {
		for _, name := range names {
			if of := sums[kind{name, level}]; of != nil {
				lines = append(lines, finding.Printable(fmt.Sprintf("  %-8s %-22s %s, %s", level, name,
					finding.Plural(of.findings, "finding"), times(of.times))))
				if rule := finding.ByName(name); rule != nil && !explained[name] {
					explained[name] = true
					lines = append(lines, "           see: "+rule.Explain())
				}
			}
		}
	}
	return lines
}

// times returns for example "3 times".
func times(n int) string {
	if n == 1 {
		return "once"
	}
	return strconv.Itoa(n) + " times"
}

// programLines says how the program ended, as far as its user has to know, and what to do next.
func (s *Session) programLines(say func(format string, args ...any)) {
	r := s.report
	if s.nothing() {
		say("%s", whyNothing(r.Command[0]))
		if s.last.Code == 0 && s.o.NothingCode != 0 {
			say("so the exit code is %d; --allow-none makes it 0", s.o.NothingCode)
		}
	}
	if s.last.Signal != 0 {
		say("the program was ended by %s", s.last)
	} else if s.last.Code != 0 && (s.ExitCode() != s.last.Code || len(r.Runs) > 1) {
		say("the program's own exit code is %d", s.last.Code)
	}
	if s.o.Schedules == 1 {
		return
	}
	if len(r.Runs) < s.o.Schedules {
		say("schedules: %d of %d were run, because the program failed or was interrupted", len(r.Runs), s.o.Schedules)
	}
	var seeds []string
	for _, run := range r.Runs {
		if run.Findings > 0 {
			seeds = append(seeds, strconv.FormatUint(run.Seed, 10))
		}
	}
	if n := len(seeds); n > 0 {
		list := strings.Join(seeds[:min(n, mostSeeds)], ", ")
		if n > mostSeeds {
			list += ", ..."
		}
		say("schedules with findings: %d of %d, seeds %s", n, len(r.Runs), list)
	}
}

// mostSeeds limits the seeds that are named; the report has all.
const mostSeeds = 20

// WriteSuppressions writes a file that suppresses every finding.
func (s *Session) WriteSuppressions(w io.Writer) error {
	return finding.WriteSuppressions(w, s.fold.Entries)
}

// WriteReport writes the report in a form: json, junit, sarif, github, or by default text.
func (s *Session) WriteReport(w io.Writer, form string) error {
	plain := finding.Layout{Dir: s.layout.Dir, Sources: s.layout.Sources}
	switch form {
	case "json":
		return s.report.WriteJSON(w)
	case "junit":
		return s.report.WriteJUnit(w, plain)
	case "sarif":
		return s.report.WriteSARIF(w, plain.Dir)
	case "github":
		return s.report.WriteGitHub(w, plain)
	}
	for _, e := range s.report.Findings {
		text := plain.Text(&e.Finding)
		if e.Suppressed != "" {
			text = "suppressed by [" + e.Suppressed + "]\n" + text
		}
		if _, err := io.WriteString(w, text+"\n"); err != nil {
			return err
		}
	}
	color, width := s.out.Color, s.layout.Width
	s.out.Color, s.layout.Width = false, 0
	defer func() { s.out.Color, s.layout.Width = color, width }()
	_, err := io.WriteString(w, strings.Join(s.summary(), "\n")+"\n")
	return err
}
