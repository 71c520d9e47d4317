package finding

import (
	"strings"
	"testing"

	"ropeway/internal/abi"
)

// TestLanguages: functions in a text get the names of the program's language, and nothing else changes.
func TestLanguages(t *testing.T) {
	const text = "Use aclrtMemcpy, not aclrtMemcpyAsync (aclInit, aclrtNoSuchThing, myaclrtMemcpy, " +
		"ACL_MEMCPY_DEFAULT, acl.rt.free) or aclFinalize."
	for l, want := range map[Language]string{
		C: text,
		Python: "Use acl.rt.memcpy, not acl.rt.memcpy_async (acl.init, aclrtNoSuchThing, myaclrtMemcpy, " +
			"ACL_MEMCPY_DEFAULT, acl.rt.free) or acl.finalize.",
		Go: "Use Device.Copy, not Stream.Copy (aclInit, aclrtNoSuchThing, myaclrtMemcpy, ACL_MEMCPY_DEFAULT, " +
			"acl.rt.free) or Runtime.Close.",
	} {
		if got := l.Text(text); got != want {
			t.Errorf("%d: %s", l, got)
		}
	}
}

// TestCName: a Python name is converted to its C function, and other names are unchanged.
func TestCName(t *testing.T) {
	for python, want := range map[string]string{"acl.rt.memcpy_async": "aclrtMemcpyAsync", "acl.init": "aclInit",
		"aclrtMalloc": "aclrtMalloc", "acl.rt.no": "acl.rt.no"} {
		if got := CName(python); got != want {
			t.Errorf("%s: %s", python, got)
		}
	}
	for c, python := range pythonNames {
		if CName(python) != c {
			t.Errorf("%s and %s are both %s", c, CName(python), python)
		}
	}
}

// TestAdviceInLanguages: no advice for a Python or Go program names a function of C.
func TestAdviceInLanguages(t *testing.T) {
	for _, r := range Rules {
		if got := r.AdviceIn(C); got != r.Advice {
			t.Errorf("%s: %s", r.Name, got)
		}
		for _, l := range []Language{Python, Go} {
			if got := r.AdviceIn(l); function.MatchString(got) || !strings.HasSuffix(got, ".") {
				t.Errorf("%s, %d: %s", r.Name, l, got)
			}
		}
	}
	for name := range goAdvice {
		if ByName(name) == nil {
			t.Errorf("there is no rule %s", name)
		}
	}
	for c := range abi.GoNames() {
		if pythonNames[c] == "" {
			t.Errorf("%s is no function of the table, or has no Python form", c)
		}
	}
}
