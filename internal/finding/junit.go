package finding

import (
	"encoding/xml"
	"fmt"
	"io"
	"os"
	"strings"
)

// The elements of a JUnit report that dashboards read, with fields in the order of elements.
type (
	junitSuites struct {
		XMLName xml.Name   `xml:"testsuites"`
		Suite   junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name       string          `xml:"name,attr"`
		Tests      int             `xml:"tests,attr"`
		Failures   int             `xml:"failures,attr"`
		Errors     int             `xml:"errors,attr"`
		Skipped    int             `xml:"skipped,attr"`
		Time       string          `xml:"time,attr"`
		Timestamp  string          `xml:"timestamp,attr"`
		Hostname   string          `xml:"hostname,attr"`
		Properties []junitProperty `xml:"properties>property"`
		Cases      []junitCase     `xml:"testcase"`
	}
	junitProperty struct {
		Name  string `xml:"name,attr"`
		Value string `xml:"value,attr"`
	}
	junitCase struct {
		Class   string       `xml:"classname,attr"`
		Name    string       `xml:"name,attr"`
		Time    string       `xml:"time,attr"`
		Skipped *junitSkip   `xml:"skipped"`
		Error   *junitResult `xml:"error"`
		Failure *junitResult `xml:"failure"`
		Out     *junitText   `xml:"system-out"`
	}
	junitSkip struct {
		Message string `xml:"message,attr"`
	}
	junitResult struct {
		Message string `xml:"message,attr"`
		Type    string `xml:"type,attr"`
		Text    string `xml:",cdata"`
	}
	junitText struct {
		Text string `xml:",cdata"`
	}
)

// WriteJUnit writes the report as JUnit XML. Each rule is a test case, and so is the program itself, so that names are
// stable and dashboards can show the history of a rule. A rule fails if it has findings that fail the check; its other
// findings are output; if all are suppressed it is skipped.
func (r *Report) WriteJUnit(w io.Writer, l Layout) error {
	host, _ := os.Hostname()
	s := junitSuite{Name: "ropeway check", Time: fmt.Sprintf("%.3f", r.Seconds),
		Timestamp: r.Started.UTC().Format("2006-01-02T15:04:05"), Hostname: host,
		Properties: []junitProperty{{"command", strings.Join(r.Command, " ")}, {"version", r.Version}}}
	program := r.programCase()
	program.Time = s.Time
	s.Cases = append(s.Cases, program)
	for _, rule := range r.Rules {
		s.Cases = append(s.Cases, r.ruleCase(rule, l))
	}
	for _, c := range s.Cases {
		s.Tests++
		switch {
		case c.Skipped != nil:
			s.Skipped++
		case c.Error != nil:
			s.Errors++
		case c.Failure != nil:
			s.Failures++
		}
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	e := xml.NewEncoder(w)
	e.Indent("", "  ")
	if err := e.Encode(junitSuites{Suite: s}); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

const junitClass = "ropeway.check"

// programCase reports how the program itself ended.
func (r *Report) programCase() junitCase {
	c := junitCase{Class: junitClass, Name: "program"}
	for _, run := range r.Runs {
		message := ""
		switch {
		case run.Signal != "":
			message = "the program was ended by " + run.Signal
		case run.ExitCode != 0:
			message = fmt.Sprintf("the program's exit code is %d", run.ExitCode)
		}
		if message != "" && c.Error == nil {
			c.Error = &junitResult{Message: message, Type: "program", Text: fmt.Sprintf("%s (seed %d)",
				message, run.Seed)}
		}
	}
	var notes []string
	for _, n := range r.Notes {
		notes = append(notes, Printable(n.Text))
	}
	c.Out = output(strings.Join(notes, "\n"))
	return c
}

func (r *Report) ruleCase(rule string, l Layout) junitCase {
	c := junitCase{Class: junitClass, Name: rule, Time: "0"}
	var fails, passes []*Entry
	suppressed := 0
	for _, e := range r.Findings {
		switch {
		case e.Rule != rule:
		case e.Suppressed != "":
			suppressed++
		case e.Severity.AtLeast(r.FailOn):
			fails = append(fails, e)
		default:
			passes = append(passes, e)
		}
	}
	c.Out = output(texts(passes, l))
	switch {
	case len(fails) > 0:
		message := fails[0].Summary
		if more := len(fails) - 1; more > 0 {
			message += fmt.Sprintf(" (and %d more)", more)
		}
		c.Failure = &junitResult{Message: message, Type: string(fails[0].Severity), Text: "\n" + texts(fails, l)}
	case suppressed > 0 && len(passes) == 0:
		c.Skipped = &junitSkip{Plural(suppressed, "finding") + " suppressed"}
	}
	return c
}

// output returns the text of a test case, nil if it is empty.
func output(text string) *junitText {
	if text == "" {
		return nil
	}
	return &junitText{text}
}

func texts(list []*Entry, l Layout) string {
	var all []string
	for _, e := range list {
		all = append(all, l.Text(&e.Finding))
	}
	return strings.Join(all, "\n")
}
