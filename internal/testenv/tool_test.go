package testenv

import (
	"os"
	"regexp"
	"testing"
)

func TestMissing(t *testing.T) {
	for name, want := range map[string]string{
		"valgrind": "valgrind is missing: apt-get install valgrind",
		"groff":    "groff is missing: apt-get install groff-base",
	} {
		if got := missing(name); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestAsInCI: what a message says to install is what .ci/run installs.
func TestAsInCI(t *testing.T) {
	text, err := os.ReadFile("../../.ci/run")
	if err != nil {
		t.Fatal(err)
	}
	list := regexp.MustCompile(`(?m)^\t"([^ "]+) ([^"]+)"`).FindAllSubmatch(text, -1)
	if len(list) < 10 {
		t.Fatalf("%d tools in .ci/run", len(list))
	}
	for _, m := range list {
		if name, want := string(m[1]), string(m[1])+" is missing: apt-get install "+
			string(m[2]); missing(name) != want {
			t.Errorf("%q, want %q", missing(name), want)
		}
	}
}
