package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"ropeway/internal/checkrun"
)

// outputs are the files that a check writes, open before the program runs so that a wrong path is reported at once.
type outputs struct{ report, suppressions, page *os.File }

func openOutputs(o *checkOptions) (*outputs, error) {
	f := &outputs{}
	for _, file := range []struct {
		flag, path string
		to         **os.File
	}{{"--output", o.output, &f.report}, {"--write-suppressions", o.write, &f.suppressions},
		{"--report", o.page, &f.page}} {
		switch file.path {
		case "":
		case "-":
			*file.to = os.Stdout
		default:
			opened, err := os.Create(file.path)
			if err != nil {
				f.close()
				return nil, &failure{err: fmt.Errorf("%s: %w", file.flag, err),
					next: "name a file in a directory that exists and can be written"}
			}
			*file.to = opened
		}
	}
	return f, nil
}

// close lets go of files that are not written.
func (f *outputs) close() {
	for _, file := range []*os.File{f.report, f.suppressions, f.page} {
		if file != nil && file != os.Stdout {
			file.Close()
		}
	}
}

// write writes what was asked for. All files are tried.
func (f *outputs) write(s *checkrun.Session, o *checkOptions) error {
	var annotations *os.File
	if o.annotate {
		annotations = os.Stdout
	}
	return errors.Join(
		writeFile(f.report, func(w io.Writer) error { return s.WriteReport(w, o.format) }),
		writeFile(annotations, func(w io.Writer) error { return s.WriteReport(w, "github") }),
		writeFile(f.suppressions, s.WriteSuppressions),
		writeFile(f.page, s.WritePage))
}

// writeFile writes a file, if there is one, and closes it: some file systems report only then that there was no room.
func writeFile(file *os.File, write func(io.Writer) error) error {
	if file == nil {
		return nil
	}
	if err := write(file); err != nil || file == os.Stdout {
		return err
	}
	return file.Close()
}
