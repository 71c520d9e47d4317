package finding

import (
	"fmt"
	"slices"
	"time"
)

// AtLeast reports whether s is as severe as least, or more. It is false for the empty severity.
func (s Severity) AtLeast(least Severity) bool {
	order := []Severity{Notice, Warning, Error}
	return least != "" && slices.Index(order, s) >= slices.Index(order, least)
}

// Report is the result of the check of a program, over all its runs and processes.
type Report struct {
	Version  string    `json:"version"`           // of ropeway
	Command  []string  `json:"command"`           // the program and its arguments
	Started  time.Time `json:"started"`           //
	Seconds  float64   `json:"seconds"`           // all runs together
	Rules    []string  `json:"rules"`             // enabled rules
	FailOn   Severity  `json:"fail_on,omitempty"` // least severity that fails the check; "" none
	ExitCode int       `json:"exit_code"`         // of the check

	Runs     []*Run   `json:"runs"`
	Findings []*Entry `json:"findings"`         // each once, in the order of arrival
	Hidden   int      `json:"hidden,omitempty"` // further findings that are not in the list

	Notes    []Note   `json:"notes,omitempty"`               // limitations of the checker in this run
	Injected []Shot   `json:"injected,omitempty"`            // every requested fault, fired or not
	Unused   []string `json:"unused_suppressions,omitempty"` // name and place
	// the command that runs the first order with findings again
	Replay string `json:"replay,omitempty"`
}

// Run is one run of the program.
type Run struct {
	Seed      uint64     `json:"seed"`
	ExitCode  int        `json:"exit_code"`        // exit code of the program; 128 plus its number for a signal
	Signal    string     `json:"signal,omitempty"` // signal that ended the program
	Findings  int        `json:"findings"`         // number of different findings that are not suppressed
	Processes []*Process `json:"processes"`        // processes that reported
}

// Process is a process that reported.
type Process struct {
	ID      int      `json:"process"`
	Command []string `json:"command,omitempty"`
	Tasks   uint64   `json:"tasks"`
	Calls   uint64   `json:"calls"`
	Ended   bool     `json:"ended"` // it sent End; else it was killed, or still runs
}

// Note is a limitation of the checker, and the number of times it was reported.
type Note struct {
	Text  string `json:"text"`
	Times int    `json:"times"`
}

// Entry is a finding of a report. Its Count is the sum of all runs and processes.
type Entry struct {
	Finding
	// the same in every run and machine, see [Finding.Fingerprint]
	Fingerprint string   `json:"fingerprint"`
	Seeds       []uint64 `json:"seeds"`                   // seeds of the runs that had it, in order
	Suppressed  string   `json:"suppressed_by,omitempty"` // name of the suppression
}

// Fold merges identical findings.
type Fold struct {
	Entries []*Entry // in the order of arrival
	byKey   map[string]*Entry
}

// Add adds a finding of the run with this seed. It returns its entry, and whether that is new.
func (c *Fold) Add(f *Finding, seed uint64) (e *Entry, isNew bool) {
	f.complete(seed)
	key := f.Key()
	if e = c.byKey[key]; e == nil {
		e, isNew = &Entry{Finding: *f, Fingerprint: f.Fingerprint()}, true
		if c.byKey == nil {
			c.byKey = map[string]*Entry{}
		}
		c.byKey[key] = e
		c.Entries = append(c.Entries, e)
	} else {
		e.Count += f.Count
	}
	if !slices.Contains(e.Seeds, seed) {
		e.Seeds = append(e.Seeds, seed)
	}
	return e, isNew
}

// complete fills in fields that a sender may omit.
func (f *Finding) complete(seed uint64) {
	f.Seed, f.Count = seed, max(f.Count, 1)
	rule := ByName(f.Rule)
	if f.Severity != Error && f.Severity != Warning && f.Severity != Notice {
		f.Severity = Error
		if rule != nil {
			f.Severity = rule.Severity
		}
	}
	if rule != nil {
		if f.Advice == "" {
			f.Advice = rule.Advice
		}
		if f.Summary == "" {
			f.Summary = rule.Catches
		}
	}
}

// Plural returns a number and its noun.
func Plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
