package capitest

import (
	"fmt"
	"strings"
	"testing"
)

// caseMachines are those that the cases of the table are for.
var caseMachines = []struct {
	product, form, strict string
}{
	{"A2", "", "0"}, {"A3", "", "0"}, {"950", "", "0"}, {"310P", "", "0"}, {"310B", "", "0"}, {"910", "", "0"}, {"310", "", "0"}, {"310B", "RC", "0"},
	{"A2", "", "1"}, {"310", "", "1"},
}

// TestCases makes, through the library, the calls that the generator makes of the expressions of rules.
func TestCases(t *testing.T) {
	t.Parallel()
	program := casesProgram(t)
	calls, all := 0, -1
	for _, m := range caseMachines {
		env := []string{"ROPEWAY_DEVICES=4", "ROPEWAY_DEVICE_MEMORY=256M", "ROPEWAY_PRODUCT=" + m.product, "ROPEWAY_STRICT=" + m.strict}
		if m.form != "" {
			env = append(env, "ROPEWAY_FORM="+m.form, "ROPEWAY_DRIVER=soft")
		}
		made, others := 0, 0
		for _, line := range strings.Split(passes(t, env, program, m.product, m.form, m.strict), "\n") {
			if strings.HasPrefix(line, "rule ") {
				made++
			}
			fmt.Sscanf(line, "others %d", &others)
		}
		if all >= 0 && made+others != all {
			t.Errorf("%v: %d calls of %d, %d are for other machines", m, made, all, others)
		}
		calls, all = calls+made, made+others
	}
	if calls != all || calls < 1000 {
		t.Errorf("%d of %d calls were made: a machine is missing", calls, all)
	}
}

// casesProgram builds the program that makes the calls of cases.h.
func casesProgram(t *testing.T, flags ...string) string {
	t.Helper()
	return compile(t, []string{"cases.c"}, append([]string{"-O0", "-Itestdata", "-pthread"}, flags...)...)
}
