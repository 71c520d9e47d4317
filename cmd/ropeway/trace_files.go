package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"ropeway/internal/finding"
	"ropeway/internal/report"
	"ropeway/internal/timeline"
	"ropeway/internal/timeline/advice"
	"ropeway/internal/timeline/dot"
	"ropeway/internal/timeline/perfetto"
	"ropeway/internal/trace"
	"ropeway/internal/ui"
)

// traceFile is a file to be written, in the form that its name says.
type traceFile struct {
	name  string
	named bool // by the user, who may name a link
	made  bool // it was not there before
	write func(name string, run *timeline.Run) error
	about string
}

type traceFiles []traceFile

// traceFiles are those that are wanted, or two with that name, which replace those of an earlier run.
func (a *app) traceFiles(o *traceOptions, base string) (files traceFiles, err error) {
	names := o.output
	if len(names) == 0 {
		if names, err = unusedNames(base); err != nil {
			return nil, err
		}
	}
	for _, name := range names {
		f := traceFile{name: name, named: len(o.output) > 0}
		switch {
		case strings.HasSuffix(name, ".html"), strings.HasSuffix(name, ".htm"):
			f.write = func(name string, run *timeline.Run) error { return writeReport(name, run, a.docs()) }
			f.about = "open it in a browser"
		case strings.HasSuffix(name, ".json"), strings.HasSuffix(name, ".json.gz"):
			f.write, f.about = perfetto.WriteFile, "open it in ui.perfetto.dev"
		case strings.HasSuffix(name, ".dot"):
			f.write, f.about = dot.WriteFile, "the models of the run, for Graphviz"
		default:
			return nil, &usageError{fmt.Errorf("--output %s: its ending says nothing about its form", name),
				"end it in .html for a report, in .json or .json.gz for Perfetto, or in .dot for Graphviz"}
		}
		files = append(files, f)
	}
	return files, nil
}

// prove finds out whether the files can be written, before a long run.
func (files traceFiles) prove() error {
	for i := range files {
		f := &files[i]
		info, err := os.Stat(f.name)
		if err == nil && !info.Mode().IsRegular() && !info.IsDir() {
			continue // opening a pipe would wait for its reader
		}
		f.made = os.IsNotExist(err)
		how := os.O_WRONLY | os.O_CREATE
		if !f.named {
			how |= unix.O_NOFOLLOW
		}
		file, err := os.OpenFile(f.name, how, 0o666)
		if err != nil {
			files.discard()
			return &failure{err: err, next: "choose another file: --output FILE"}
		}
		file.Close()
	}
	return nil
}

// discard removes files that were made for nothing.
func (files traceFiles) discard() {
	for _, f := range files {
		if info, err := os.Stat(f.name); f.made && err == nil && info.Size() == 0 {
			os.Remove(f.name)
		}
	}
}

// whole lets write make a file under another name, which becomes its name when all of it is there: an old one stays
// until then. If follow is set, name may be a link or no file at all, such as a pipe.
func whole(name string, follow bool, write func(name string) error) error {
	if to, err := filepath.EvalSymlinks(name); err == nil && follow {
		name = to
	}
	if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() && follow {
		return write(name)
	}
	part, err := unusedPart(name)
	if err != nil {
		return err
	}
	if err = write(part); err == nil {
		err = os.Rename(part, name)
	}
	if err != nil {
		os.Remove(part)
	}
	return err
}

// unusedPart makes an empty file beside another, with the same ending. Nobody else has put it there.
func unusedPart(name string) (part string, err error) {
	dir, base := filepath.Split(name)
	for i := 0; ; i++ {
		part = filepath.Join(dir, fmt.Sprintf(".%d-%d-%s", os.Getpid(), i, base))
		f, err := os.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		if err == nil {
			return part, f.Close()
		}
		if !errors.Is(err, os.ErrExist) || i == mostNames {
			return "", err
		}
	}
}

// writeReport writes the page.
func writeReport(name string, run *timeline.Run, docs string) (err error) {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return report.Write(f, run, docs)
}

// show writes the files and says what they hold.
func (a *app) show(dir string, program []string, files traceFiles) error {
	run, err := trace.Read(dir)
	if errors.Is(err, trace.ErrNothing) {
		return &failure{err: err, next: "it has to call AscendCL; statically linked C programs and ones that change " +
			"LD_LIBRARY_PATH get another library"}
	}
	if err != nil {
		return err
	}
	if program != nil {
		run.Program = program
	}
	if dir, err := os.Getwd(); err == nil {
		run.Shorten(func(file string) string { return finding.Below(dir, file) })
	}
	out := ui.New(a.stderr, a.getenv)
	sayRun(out, run)
	for _, f := range files {
		if err := whole(f.name, f.named, func(name string) error { return f.write(name, run) }); err != nil {
			return &failure{err: err, next: "the program has run; with --keep DIR what is recorded stays"}
		}
		out.Line("  %s  %s", out.Good(f.name), out.Dim(f.about))
	}
	return nil
}

// sayRun says what a run was and what to change, in lines as wide as the terminal.
func sayRun(out *ui.Output, run *timeline.Run) {
	fold := func(text string) {
		for _, line := range ui.Fold(text, terminalWidth(out)) {
			out.Line("%s", line)
		}
	}
	fold(out.Bold("ropeway:") + " " + traceSummary(run))
	for _, line := range kernelLines(run) {
		fold("  " + line)
	}
	for _, note := range run.Notes {
		fold("  " + note)
	}
	for i, d := range advice.Of(run) {
		if i == mostAdvice {
			break
		}
		fold("  " + d.Title)
		for _, line := range d.Lines {
			out.Line("    at %s", line)
		}
	}
}

// mostAdvice is how much advice the terminal shows; the report has all of it.
const mostAdvice = 3

// mostKernels is how many kernels the terminal shows.
const mostKernels = 5

// kernelLines say how often each kernel ran and for how long, in models too, those that took longest first.
func kernelLines(run *timeline.Run) (lines []string) {
	all := run.Kernels()
	for i, k := range all {
		if i == mostKernels {
			lines = append(lines, fmt.Sprintf("and %s", finding.Plural(len(all)-i, "other kernel")))
			break
		}
		line := fmt.Sprintf("kernel %s: %d x, %s", k.Name, k.Launches, finding.Plural(int(k.Blocks), "block"))
		if k.Untimed < k.Launches {
			line += fmt.Sprintf(", %s in all", duration(float64(k.Took)/1e9))
		}
		if k.Untimed > 0 {
			line += fmt.Sprintf(", %d without times of their own", k.Untimed)
		}
		lines = append(lines, line)
	}
	return lines
}

// traceSummary says in one line what a run was.
func traceSummary(run *timeline.Run) string {
	_, bytes := run.Copied()
	text := fmt.Sprintf("%s, %s, %s copied in %s", finding.Plural(len(run.Calls), "call"),
		finding.Plural(len(run.Tasks), "task"), ui.Bytes(bytes), duration(float64(run.Duration)/1e9))
	if n := len(run.Processes); n > 1 {
		text += fmt.Sprintf(", by %d processes", n)
	}
	return text
}
