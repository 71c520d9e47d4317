package setup

import (
	"strings"
	"testing"

	"ropeway/internal/abi"
)

// TestReadNoCheck: without ROPEWAY_CHECK nothing is checked, and a program that wants to inject faults gets an error.
func TestReadNoCheck(t *testing.T) {
	for _, v := range []string{"", "0"} {
		s, err := Read(environment("ROPEWAY_CHECK="+v, "ROPEWAY_INJECT=aclrtMalloc:3=207001"))
		if err != nil || s.Check != nil {
			t.Errorf("%q: %+v, %v", v, s.Check, err)
		}
		if notes := strings.Join(s.Notes, "\n"); !strings.Contains(notes, "ROPEWAY_INJECT") || !strings.Contains(notes,
			"ROPEWAY_CHECK") {
			t.Errorf("%q: notes %q", v, notes)
		}
	}
}

// TestNotLinked: what a program was built without is refused with the import that it lacks.
func TestNotLinked(t *testing.T) {
	for variable, pkg := range map[string]string{"ROPEWAY_CHECK=1": "ropeway/check",
		"ROPEWAY_DRIVER=cuda": "ropeway/driver/cuda", "ROPEWAY_POD=pod.yaml": "ropeway/pod"} {
		_, err := Read(environment(variable))
		e, _ := err.(*Error)
		if e == nil || e.Code != abi.ErrRTFeatureNotSupport || !strings.Contains(e.Error(), `import _ "`+pkg+`"`) {
			t.Errorf("%s: %v does not name %s", variable, err, pkg)
		}
	}
	if _, err := (Settings{Driver: CUDADriver}).Open(nil); err == nil || !strings.Contains(err.Error(),
		`"ropeway/driver/cuda"`) {
		t.Errorf("Open: %v", err)
	}
}
