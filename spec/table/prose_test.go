package table

import (
	"testing"

	"ropeway/internal/testenv"
)

// TestProse: an expression of a common kind has words, and a rule that repeats them is refused when it is loaded.
func TestProse(t *testing.T) {
	tab, err := Load()
	testenv.OK(t, err)
	f := tab.Function("aclrtWaitAndResetNotify")
	for text, want := range map[string]string{
		"notify == NULL":                  "notify is NULL",
		"notify != NULL":                  "notify is not NULL",
		"!live(notify)":                   "notify is not a live handle",
		"notify != NULL && !live(notify)": "notify is not NULL and not a live handle",
		"stream != NULL && !live(stream)": "stream is not NULL and not a live stream handle (NULL means the " +
			"default stream)",
		"elsewhere(stream)":                 "stream belongs to another context than the current one",
		"!context()":                        "the calling thread has no current context",
		"!usable(timeout)":                  "timeout is not a usable device",
		"!listed()":                         "product without the function",
		"timeout > 20":                      "timeout > 20",
		"timeout == 0":                      "timeout == 0",
		"(timeout & 1) == 0":                "", // these need a person
		"timeout == 0 || notify == NULL":    "",
		"context()":                         "",
		"stream != NULL && !live(notify)":   "",
		"notify == NULL && !live(stream)":   "",
		"product(310B) && notify == NULL":   "",
		"!product(310B)":                    "",
		"!(timeout == 0 && notify != NULL)": "",
	} {
		w, err := ParseWhen(text)
		testenv.OK(t, err)
		if got := tab.Prose(f, w); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

// TestWhenRefused: what an expression or a function names has to exist, and words are not said twice.
func TestWhenRefused(t *testing.T) {
	tab, err := Load()
	testenv.OK(t, err)
	f := tab.Function("aclrtCntNotifyRecord")
	for _, r := range []Rule{
		{When: "nobody == NULL"},
		{When: "info.nothing == 1"},
		{When: "deviceOnly(stream)"},
		{When: "product(310C)"},
		{When: "info == NULL", If: "info is NULL"},
		{When: "info == NULL", By: "name(nobody)"},
		{By: "name(nobody)"},
		{By: "no call"},
		{By: "work"},
	} {
		c := &checker{Table: tab}
		c.checkWhen(f, "here", &r)
		c.checkBy(f, "here", &r)
		if len(c.errs) == 0 {
			t.Errorf("%+v is accepted", r)
		}
	}
	c, r := &checker{Table: tab}, Rule{When: "info.mode > 4", If: "no such mode"}
	c.checkWhen(f, "here", &r)
	c.checkBy(f, "here", &r)
	by := Rule{By: "known(cntNotify, context)"}
	c.checkBy(f, "here", &by)
	if len(c.errs) > 0 || r.Expr == nil || by.Call == nil || by.Call.Op != "known" || len(by.Call.Args) != 2 {
		t.Errorf("%v, %+v, %+v", c.errs, r, by)
	}
}
