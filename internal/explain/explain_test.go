package explain

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"ropeway/internal/testenv"
	"ropeway/spec/table"
)

func open(t *testing.T) *Book {
	t.Helper()
	b, err := Open()
	testenv.OK(t, err)
	return b
}

// TestFind proves that every way to write a name leads to it.
func TestFind(t *testing.T) {
	b := open(t)
	for _, tt := range []struct{ asked, want string }{
		{"107000", "code 107000 ACL_ERROR_RT_PARAM_INVALID"},
		{"0x1A1F8", "code 107000 ACL_ERROR_RT_PARAM_INVALID"},
		{"0x1a1f8", "code 107000 ACL_ERROR_RT_PARAM_INVALID"},
		{" 107000 ", "code 107000 ACL_ERROR_RT_PARAM_INVALID"},
		{"0", "code 0 ACL_SUCCESS"},
		{"ACL_ERROR_RT_PARAM_INVALID", "code 107000 ACL_ERROR_RT_PARAM_INVALID"},
		{"RT_PARAM_INVALID", "code 107000 ACL_ERROR_RT_PARAM_INVALID"},
		{"rt_param_invalid", "code 107000 ACL_ERROR_RT_PARAM_INVALID"},
		{"error_rt_param_invalid", "code 107000 ACL_ERROR_RT_PARAM_INVALID"},
		{"ACL_SUCCESS", "code 0 ACL_SUCCESS"},
		{"aclrtMemcpyAsync", "function aclrtMemcpyAsync"},
		{"ACLRTMEMCPYASYNC", "function aclrtMemcpyAsync"},
		{"aclrtMemcpyAsync()", "function aclrtMemcpyAsync"},
		{"aclrtMemcpyAsync(dst, n, src, n, kind, s);", "function aclrtMemcpyAsync"},
		{"acl.rt.memcpy_async", "function aclrtMemcpyAsync"},
		{"rt.memcpy_async", "function aclrtMemcpyAsync"},
		{"acl.rt.set_context", "function aclrtSetCurrentContext"},
		{"aclopStopDumpArgs", "function aclopStopDumpArgs"},
		{"aclrtMemcpyKind", "enum aclrtMemcpyKind"},
		{"enum aclrtMemcpyKind", "enum aclrtMemcpyKind"},
		{"ACL_MEMCPY_HOST_TO_DEVICE", "enum aclrtMemcpyKind"},
		{"memcpy_host_to_device", "enum aclrtMemcpyKind"},
		{"aclrtMemLocation", "struct aclrtMemLocation"},
		{"aclrtStream", "handle aclrtStream"},
	} {
		a, err := b.Find(tt.asked)
		if err != nil || a.String() != tt.want {
			t.Errorf("%q: %v, %v; want %s", tt.asked, a, err, tt.want)
		}
	}
}

// TestNotFound proves that what does not exist is refused with what comes near.
func TestNotFound(t *testing.T) {
	b := open(t)
	for _, tt := range []struct{ asked, near, text string }{
		{"aclrtMemcpyAsink", "aclrtMemcpyAsync", `no code, function or type "aclrtMemcpyAsink"`},
		{"memcpyasync", "aclrtMemcpyAsync", "no code"},
		{"RT_PARAM_INVALD", "ACL_ERROR_RT_PARAM_INVALID", "no code"},
		{"acl.rt.memcopy_async", "acl.rt.memcpy_async", "no code"},
		{"107999", "107045", "its range is Runtime: caller errors (107xxx)"},
		{"3", "", `no code, function or type "3"`},
		{"-1", "", "no code"},
		{"4294967295", "", "no code"},
		{"9999999999999999999999", "", "no code"},
		{"", "", "no code"},
		{"qqqqqqqqqqqq", "", "no code"},
	} {
		_, err := b.Find(tt.asked)
		var missing *NotFound
		if !errors.As(err, &missing) || !strings.Contains(err.Error(), tt.text) {
			t.Errorf("%q: %v", tt.asked, err)
			continue
		}
		if tt.near == "" && missing.Near != nil || tt.near != "" && !slices.Contains(missing.Near, tt.near) ||
			len(missing.Near) > mostNear {
			t.Errorf("%q: near is %v, want %q", tt.asked, missing.Near, tt.near)
		}
	}
}

// TestAll asks for every name of the table and proves that the entry is about it.
func TestAll(t *testing.T) {
	b := open(t)
	tab, err := table.Load()
	testenv.OK(t, err)
	for _, c := range tab.Codes() {
		a, err := b.Find(c.Name)
		if err != nil || a.Code == nil || a.Code.Number != c.Number || a.Code.Do == "" || a.Code.Layer == "" {
			t.Errorf("%s: %v, %v", c.Name, a, err)
		}
	}
	for _, f := range tab.Functions {
		a, err := b.Find(f.Name)
		if err != nil || a.Function == nil || a.Function.Name != f.Name ||
			a.Function.Built != (f.Status == table.Core) || len(a.Function.Rules) != len(f.Rules) {
			t.Errorf("%s: %v, %v", f.Name, a, err)
		}
		if f.Form != nil {
			name := f.Form.Module + "." + f.Form.Name
			if a, err := b.Find(name); err != nil || a.Function == nil {
				t.Errorf("%s: %v, %v", name, a, err)
			}
		}
	}
	for _, e := range tab.Types.Enums {
		for _, m := range e.Members {
			if a, err := b.Find(m.Name); err != nil || a.Type == nil || a.Type.Name != e.Name ||
				a.Type.Asked != m.Name {
				t.Errorf("%s: %v, %v", m.Name, a, err)
			}
		}
	}
	for _, s := range tab.Types.Structs {
		if a, err := b.Find(s.Name); err != nil || a.Type == nil || a.Type.Size != s.Size ||
			len(a.Type.Members) < len(s.Fields) {
			t.Errorf("%s: %v, %v", s.Name, a, err)
		}
	}
	for _, name := range b.Names() {
		if _, err := b.Find(name); err != nil {
			t.Error(err)
		}
	}
}

// TestAnswers proves that a code knows which functions return it, and a function its rules and products.
func TestAnswers(t *testing.T) {
	b := open(t)
	a, err := b.Find("207000")
	testenv.OK(t, err)
	if a.Code.NotYet == 0 {
		t.Error("207000 is what functions that are not built return, and none is counted")
	}
	for _, s := range a.Code.Answers {
		for _, r := range s.Rules {
			if r.Code == nil || *r.Code != 207000 {
				t.Errorf("%s: rule %s returns something else", s.Function, r.Name)
			}
		}
	}
	if a, err = b.Find("107002"); err != nil || a.Code.NotYet != 0 || a.Code.Answers[0].Function != "aclrtMemcpy" ||
		a.Code.Answers[0].Rules[0].Name != "no-context" {
		t.Errorf("107002: %+v, %v", a.Code, err)
	}
	if a, err = b.Find("0"); err != nil || !slices.Equal(a.Code.Aliases, []string{"ACL_ERROR_NONE", "ACL_RT_SUCCESS"}) {
		t.Errorf("0: %+v, %v", a.Code, err)
	}
	if a, err = b.Find("aclrtMemcpyBatch"); err != nil {
		t.Fatal(err)
	}
	for _, s := range a.Function.Products {
		if want := slices.Contains([]string{"950", "A3", "A2"}, s.Product); s.Has != want {
			t.Errorf("aclrtMemcpyBatch on %s: %t", s.Product, s.Has)
		}
	}
	if a, err = b.Find("aclrtStream"); err != nil || !slices.Contains(a.Type.UsedBy, "aclrtMemcpyAsync") ||
		slices.Contains(a.Type.UsedBy, "aclrtMemcpy") {
		t.Errorf("aclrtStream is used by %v, %v", a.Type.UsedBy, err)
	}
}

// TestAdviceNamesFunctions proves that advice does not send users to functions that do not exist.
func TestAdviceNamesFunctions(t *testing.T) {
	tab, err := table.Load()
	testenv.OK(t, err)
	for _, c := range tab.Codes() {
		for _, word := range strings.FieldsFunc(tab.AdviceFor(c.Name),
			func(r rune) bool { return strings.ContainsRune(" ,.;:()", r) }) {
			if strings.HasPrefix(word, "acl") && tab.Function(word) == nil {
				t.Errorf("%s: there is no function %s", c.Name, word)
			}
		}
	}
}
