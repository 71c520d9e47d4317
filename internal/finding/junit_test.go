package finding

import (
	"bytes"
	"encoding/xml"
	"os"
	"regexp"
	"strings"
	"testing"

	"ropeway/internal/testenv"
)

// TestJUnit proves that the file fits the schema of Jenkins and others, and that its sums are right.
func TestJUnit(t *testing.T) {
	var b bytes.Buffer
	testenv.OK(t, sample().WriteJUnit(&b, Layout{}))
	host, _ := os.Hostname()
	golden(t, "report.xml", strings.Replace(b.String(), `hostname="`+host+`"`, `hostname="host"`, 1))
	var suites junitSuites
	d := xml.NewDecoder(bytes.NewReader(b.Bytes()))
	testenv.OK(t, d.Decode(&suites))
	s := suites.Suite
	names := map[string]*junitCase{}
	failures, errors, skipped := 0, 0, 0
	for i := range s.Cases {
		c := &s.Cases[i]
		if names[c.Name] != nil || c.Class == "" || c.Time == "" {
			t.Errorf("%+v", c)
		}
		names[c.Name] = c
		outcomes := 0
		if c.Failure != nil {
			outcomes, failures = outcomes+1, failures+1
		}
		if c.Error != nil {
			outcomes, errors = outcomes+1, errors+1
		}
		if c.Skipped != nil {
			outcomes, skipped = outcomes+1, skipped+1
		}
		if outcomes > 1 {
			t.Errorf("%s has %d outcomes", c.Name, outcomes)
		}
	}
	if s.Tests != len(s.Cases) || s.Failures != failures || s.Errors != errors || s.Skipped != skipped ||
		s.Tests != len(Rules)+1 {
		t.Errorf("%d tests, %d failures, %d errors, %d skipped", s.Tests, s.Failures, s.Errors, s.Skipped)
	}
	if !regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d$`).MatchString(s.Timestamp) ||
		!regexp.MustCompile(`^\d+\.\d{3}$`).MatchString(s.Time) {
		t.Errorf("time %q, %q", s.Timestamp, s.Time)
	}
	if c := names["host-read-in-flight"]; c.Failure == nil || !strings.Contains(c.Failure.Text,
		"#0 ring::Buffer<int, 4>::front() const") {
		t.Errorf("%+v", c)
	}
	if c := names["misaligned"]; c.Failure != nil || c.Out == nil || !strings.Contains(c.Out.Text, "model <a&b>.py:7") {
		t.Errorf("a warning that does not count: %+v", c)
	}
	if c := names["leak"]; c.Skipped == nil || c.Skipped.Message != "1 finding suppressed" {
		t.Errorf("a suppressed finding: %+v", c)
	}
	if c := names["program"]; c.Error == nil || !strings.Contains(c.Error.Message, "SIGSEGV") {
		t.Errorf("the program: %+v", c)
	}
}

// TestJUnitTakesAnything proves that control characters of a program do not make the file unreadable.
func TestJUnitTakesAnything(t *testing.T) {
	r := sample()
	r.Findings[0].Summary = "\x00\x1b<]]>&\xff\ufffe"
	r.Findings[0].Others[0].Call = r.Findings[0].Summary
	r.Notes = append(r.Notes, Note{r.Findings[0].Summary, 1})
	var b bytes.Buffer
	testenv.OK(t, r.WriteJUnit(&b, Layout{}))
	if err := xml.Unmarshal(b.Bytes(), new(junitSuites)); err != nil {
		t.Error(err)
	}
}
