// Command sample writes a report of a made-up run, for trying the page: go run ./internal/report/sample >
// sample.json.
package main

import (
	"flag"
	"fmt"
	"os"

	"ropeway/internal/report"
	"ropeway/internal/timeline/perfetto"
	"ropeway/internal/timeline/sample"
)

func main() {
	tasks := flag.Int("tasks", 2000, "about how many tasks it has")
	seed := flag.Uint64("seed", 1, "draw the run from this number")
	form := flag.String("form", "json", "json: what the page reads, html: the page, perfetto: the trace")
	checked := flag.Bool("checked", false, "with findings of the checker")
	flag.Parse()
	run := sample.Serving(*tasks, *seed)
	if *checked {
		sample.Findings(run)
	}
	var err error
	switch *form {
	case "html":
		err = report.Write(os.Stdout, run, "")
	case "perfetto":
		err = perfetto.Write(os.Stdout, run)
	default:
		var text []byte
		if text, err = report.JSON(run); err == nil {
			_, err = os.Stdout.Write(append(text, '\n'))
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
