package main

import (
	"encoding/json"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"ropeway/internal/ui"
	"ropeway/internal/version"
)

// commit is set by make release, which has the go command note nothing.
var commit string

type versionReport struct {
	Version string `json:"version"`
	API     string `json:"api"`
	Go      string `json:"go"`
	System  string `json:"system"`
	Commit  string `json:"commit,omitempty"`
	Changed bool   `json:"changed,omitempty"` // built from more than the commit
}

func readVersion() versionReport {
	r := versionReport{Version: version.Ropeway, API: version.API, Go: runtime.Version(),
		System: runtime.GOOS + "/" + runtime.GOARCH, Commit: commit}
	if b, ok := debug.ReadBuildInfo(); ok {
		for _, s := range b.Settings {
			switch s.Key {
			case "vcs.revision":
				r.Commit = s.Value
			case "vcs.modified":
				r.Changed = s.Value == "true"
			}
		}
	}
	return r
}

func (a *app) version() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Show the version of ropeway, of the API and of Go",
		Example: `  ropeway version
  ropeway version --json`,
		Args:              a.noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(*cobra.Command, []string) error {
			r := readVersion()
			if asJSON {
				return a.writeJSON(r)
			}
			o := ui.New(a.stdout, a.getenv)
			c := ui.Columns{10, 0}
			o.Line("%s", c.Row("ropeway", r.Version))
			o.Line("%s", c.Row("API", "AscendCL runtime "+r.API))
			o.Line("%s", c.Row("Go", r.Go+" "+r.System))
			if r.Commit != "" {
				text := r.Commit
				if r.Changed {
					text += ", changed"
				}
				o.Line("%s", c.Row("commit", text))
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	return cmd
}

// writeJSON writes v to standard output, for programs and people.
func (a *app) writeJSON(v any) error {
	e := json.NewEncoder(a.stdout)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
