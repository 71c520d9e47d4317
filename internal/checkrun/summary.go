package checkrun

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"ropeway/internal/finding"
)

// Finish makes the report complete and writes the summary. replay is the command that runs one seed again.
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

// counted are the findings that are not suppressed, shown or not.
func (s *Session) counted() (list []*finding.Entry) {
	for _, e := range s.fold.Entries {
		if e.Suppressed == "" {
			list = append(list, e)
		}
	}
	return list
}

// ExitCode is that of the check: that of findings rather than that of the program, unless a signal asked it to end.
func (s *Session) ExitCode() int {
	if Interrupts(s.last.Signal) {
		return s.last.Code
	}
	for _, e := range s.counted() {
		if e.Severity.AtLeast(s.report.FailOn) {
			return s.o.ErrorCode
		}
	}
	return s.last.Code
}

// summary is what stands at the end, as lines.
func (s *Session) summary() (lines []string) {
	say := func(format string, args ...any) {
		lines = append(lines, "  "+finding.Printable(fmt.Sprintf(format, args...)))
	}
	lines = append(lines, s.out.Bold("ropeway check:")+" "+s.headline()+" in "+finding.Printable(s.extent()))
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
	return lines
}

// whyNot says, after a colon, why a fault never fired; "" if that is not known.
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

// headline is how many findings there are. "no findings" is said only of a program that came to its own end.
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
	}
	return "no findings" + notes
}

// extent says what was run.
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

// byRule counts findings, the worst severity first and rules in their order.
func (s *Session) byRule() (lines []string) {
	type kind struct {
		rule  string
		level finding.Severity
	}
	type sum struct{ findings, times int }
	sums := map[kind]*sum{}
	names := finding.RuleNames()
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
			}
		}
	}
	return lines
}

// times is for example "3 times".
func times(n int) string {
	if n == 1 {
		return "once"
	}
	return strconv.Itoa(n) + " times"
}

// programLines say how the program ended, as far as its user has to know, and how to go on.
func (s *Session) programLines(say func(format string, args ...any)) {
	r := s.report
	if !slices.ContainsFunc(r.Runs, func(run *finding.Run) bool { return len(run.Processes) > 0 }) {
		say("note: no process reported, so nothing was checked: the program made no call of AscendCL, or is a " +
			"statically linked C program")
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
		say("replay the first: %s", r.Replay)
	}
}

// mostSeeds is how many seeds are named; the report has all.
const mostSeeds = 20

// WriteSuppressions writes a file that suppresses every finding.
func (s *Session) WriteSuppressions(w io.Writer) error {
	return finding.WriteSuppressions(w, s.fold.Entries)
}

// WriteReport writes the report in a form: json, junit, sarif, github, or else text.
func (s *Session) WriteReport(w io.Writer, form string) error {
	plain := finding.Layout{Dir: s.layout.Dir}
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
	color := s.out.Color
	s.out.Color = false
	defer func() { s.out.Color = color }()
	_, err := io.WriteString(w, strings.Join(s.summary(), "\n")+"\n")
	return err
}
