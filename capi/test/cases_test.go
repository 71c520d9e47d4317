package capitest

import (
	"slices"
	"strings"
	"testing"
)

// casesEnv is the machine that the cases count on, whatever the product.
var casesEnv = []string{"ROPEWAY_DEVICES=4", "ROPEWAY_DEVICE_MEMORY=256M"}

// TestCases makes, through the library, the calls that the generator makes of the expressions of rules.
func TestCases(t *testing.T) {
	t.Parallel()
	program := casesProgram(t)
	calls := map[string]int{} // by machine
	for line := range strings.Lines(passes(t, nil, program)) {
		calls[strings.TrimSpace(line)]++
	}
	if len(calls) < 7 {
		t.Fatalf("only on %v", calls)
	}
	for m, want := range calls {
		f := strings.Fields(m) // machine A2 EP 0
		env := append(slices.Clone(casesEnv), "ROPEWAY_PRODUCT="+f[1], "ROPEWAY_STRICT="+f[3])
		if f[2] == "RC" {
			env = append(env, "ROPEWAY_FORM=RC", "ROPEWAY_DRIVER=soft") // no other driver has this form
		}
		if got := strings.Count(passes(t, env, program, f[1:]...), "rule "); got != want {
			t.Errorf("%s: %d calls of %d", m, got, want)
		}
	}
}

// casesProgram builds the program that makes the calls of cases.h.
func casesProgram(t *testing.T, flags ...string) string {
	t.Helper()
	return compile(t, []string{"cases.c"}, append([]string{"-O0", "-Itestdata", "-pthread"}, flags...)...)
}
