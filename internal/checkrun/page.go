package checkrun

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"ropeway/internal/finding"
	"ropeway/internal/report"
	"ropeway/internal/timeline"
	"ropeway/internal/trace"
	"ropeway/internal/ui"
)

// pageRecorder records the run for the page of --report: the first one with findings, or else the last one.
type pageRecorder struct {
	above string // directory to remove
	dir   string // recording of the current or the last recorded run
	seed  uint64
	found bool // the run has findings: later runs are not recorded
	runs  int
	came  map[*finding.Entry]time.Time // arrival times of its findings
}

// begin prepares the next run. It returns the directory that its processes record to, or "".
func (p *pageRecorder) begin(seed uint64) (string, error) {
	if p == nil {
		return "", nil
	}
	p.runs++
	if p.found {
		return "", nil
	}
	p.close()
	above, dir, err := trace.TempDir("ropeway-report-")
	if err != nil {
		return "", &ui.Advice{Err: err, Next: "set TMPDIR to a directory that can be written"}
	}
	p.above, p.dir, p.seed, p.came = above, dir, seed, map[*finding.Entry]time.Time{}
	return dir, nil
}

// take keeps the arrival time of a finding of the recorded run.
func (p *pageRecorder) take(e *finding.Entry) {
	if p == nil || p.found {
		return
	}
	if _, known := p.came[e]; !known && e.Suppressed == "" {
		p.came[e] = time.Now()
	}
}

// end ends a run.
func (p *pageRecorder) end() {
	if p != nil && len(p.came) > 0 {
		p.found = true
	}
}

// close removes the recording.
func (p *pageRecorder) close() {
	if p != nil && p.above != "" {
		os.RemoveAll(p.above)
	}
}

// WritePage writes the page: the recorded run with its findings.
func (s *Session) WritePage(w io.Writer) error {
	run, err := trace.Read(s.page.dir)
	if errors.Is(err, trace.ErrNothing) {
		run = &timeline.Run{Started: s.report.Started, Notes: []string{"No process recorded what it did, so there " +
			"is no timeline."}}
	} else if err != nil {
		return err
	}
	run.Program, run.Checked = s.report.Command, true
	run.Shorten(func(file string) string { return finding.Below(s.layout.Dir, file) })
	if s.page.runs > 1 {
		run.Notes = append(run.Notes, fmt.Sprintf("The program ran %d times; this is the run with seed %d.",
			s.page.runs, s.page.seed))
	}
	if n := s.report.Hidden; n > 0 {
		run.Notes = append(run.Notes, fmt.Sprintf("%s beyond --max-findings %d are not shown.",
			finding.Plural(n, "finding"), s.o.Most))
	}
	for _, n := range s.report.Notes {
		run.Notes = append(run.Notes, n.Text)
	}
	plain := finding.Layout{Dir: s.layout.Dir}
	for _, e := range s.report.Findings {
		if came, shown := s.page.came[e]; shown {
			run.Findings = append(run.Findings, onTimeline(run, e, came, plain))
		}
	}
	return report.Write(w, run, s.o.Docs)
}

// onTimeline returns a finding with its place in a run. A finding arrives just after it happened, and it cannot happen
// before the submission of its tasks.
func onTimeline(run *timeline.Run, e *finding.Entry, came time.Time, layout finding.Layout) timeline.Finding {
	f := timeline.Finding{Rule: e.Rule, Severity: string(e.Severity), Text: e.Summary, Remedy: e.Advice,
		Thread: timeline.None,
		Report: strings.TrimRight(layout.Text(&e.Finding), "\n"), Time: min(max(came.Sub(run.Started).Nanoseconds(),
			0), run.Duration)}
	for _, site := range append([]finding.Site{e.Offence}, e.Others...) {
		if task := taskOf(run, e.Process, &site); task != timeline.None && !slices.Contains(f.Tasks, task) {
			f.Tasks = append(f.Tasks, task)
			f.Time = max(f.Time, run.Tasks[task].Submit)
		}
		if at := layout.Place(&site); at != "" {
			f.Places = append(f.Places, timeline.Place{Role: site.Role, At: at})
		}
	}
	for i, t := range run.Threads {
		if e.Offence.Thread != 0 && t.ID == e.Offence.Thread && isProcess(run, t.Process, e.Process) {
			f.Thread = i
		}
	}
	return f
}

// taskOf returns the index of the task that a site is about, or None.
func taskOf(run *timeline.Run, process int, site *finding.Site) int {
	if site.Stream == nil || site.Task == 0 {
		return timeline.None
	}
	for i := range run.Tasks {
		t := &run.Tasks[i]
		if t.Number != site.Task || t.Stream < 0 || t.Stream >= len(run.Streams) {
			continue
		}
		if s := &run.Streams[t.Stream]; s.ID == *site.Stream && isProcess(run, s.Process, process) {
			return i
		}
	}
	return timeline.None
}

// isProcess reports whether the process at an index has the number id.
func isProcess(run *timeline.Run, index, id int) bool {
	return index >= 0 && index < len(run.Processes) && run.Processes[index].ID == id
}
