package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"ropeway/internal/testenv"
	"ropeway/spec/table"
)

// written is the check of a function whose rules are these.
func written(t *testing.T, rules ...table.Rule) (string, error) {
	t.Helper()
	tab, err := table.Load()
	testenv.OK(t, err)
	n, err := newNames(tab)
	testenv.OK(t, err)
	f := *tab.Function("aclrtRecordEventWithFlag") // event, stream, flag
	f.Rules = rules
	for i := range f.Rules {
		f.Rules[i].Name = fmt.Sprintf("rule-%d", i+1)
		if r := &f.Rules[i]; r.When != "" {
			if r.Expr, err = table.ParseWhen(r.When); err != nil {
				t.Fatal(err)
			}
		}
	}
	m := &method{pkg: "core", name: "F", names: []string{"event", "stream", "bits"},
		params: []string{"Handle", "Handle", "uint32"}, result: "*Error", finders: map[string]string{"finds": "*thing"}}
	c := &check{n: n, f: &f, m: m, bound: map[string]string{}, holds: map[string]string{}}
	c.whenGo = whenGo{tab, &f, c}
	var b bytes.Buffer
	err = c.write(&b)
	return b.String(), err
}

func rule(when string, code int32, ret string) table.Rule {
	return table.Rule{If: "flag is wrong", When: when, Code: &code, Ret: ret}
}

// TestChecks: rules become Go in their order, by the names of the method, and what they look up is returned in the
// order of the parameters.
func TestChecks(t *testing.T) {
	const invalid, handle, param = "ACL_ERROR_INVALID_PARAM", "ACL_ERROR_RT_INVALID_HANDLE",
		"ACL_ERROR_RT_PARAM_INVALID"
	strict := rule("flag == 7", 107000, param)
	strict.Strict, strict.Quiet, strict.Products = true, true, []string{"310"}
	by := table.Rule{By: "fits(event, flag, context)", Call: &table.When{Op: "fits", Args: []*table.When{
		{Op: table.WhenParam, Name: "event"}, {Op: table.WhenParam, Name: "flag"}, {Op: table.WhenParam,
			Name: "context"}}}}
	got, err := written(t,
		rule("stream != NULL && !live(stream)", 107017, handle),
		rule("!live(event)", 107017, handle),
		rule("flag > 1", 100000, invalid),
		rule("product(310B)", 207000, "ACL_ERROR_RT_FEATURE_NOT_SUPPORT"),
		rule("deviceOnly(event)", 107000, param),
		rule("!context()", 107002, "ACL_ERROR_RT_CONTEXT_NULL"),
		rule("elsewhere(stream)", 107003, "ACL_ERROR_RT_STREAM_CONTEXT"),
		strict, by,
		rule("flag == 0", 0, "ACL_SUCCESS"),
		table.Rule{If: "the work finds out"},
		rule("flag == 3", 107000, param))
	testenv.OK(t, err)
	at := 0
	for _, want := range []string{
		"checkF(event Handle, stream Handle, bits uint32) (theEvent *Event, theStream *Stream, ctx *Context, " +
			"done bool, err *Error)",
		`theStream, err = t.Stream(api, "stream", stream); err != nil`,
		`theEvent, err = t.Event(api, "event", event); err != nil`,
		"if bits > 1 {", `Fail(api, abi.ErrInvalidParam, "flag", "is wrong; it is %#x", bits)`,
		`if t.Product("310B") {`, `Unsupported(api, "", "%s does not have this function", t.Runtime.Product.Name)`,
		"if theEvent.IsDeviceOnly() {", "if ctx = t.Current(); ctx == nil", "theStream, err = ctx.On(api, theStream)",
		`if (t.Runtime.Strict || t.Product("310")) && bits == 7 {`, ".NotRecorded()", "err = t.fits(api, theEvent, bits, ctx); err != nil",
		"if bits == 0 {", "done = true",
	} {
		i := strings.Index(got[at:], want)
		if i < 0 {
			t.Fatalf("%q is missing, or out of order, in\n%s", want, got)
		}
		at += i
	}
	if strings.Contains(got, "bits == 3") {
		t.Error("a rule after one that the work checks is checked before it")
	}
}

// TestChecksFind: what a function finds, and the default stream, are results; errors that the core words better than
// the table are its own.
func TestChecksFind(t *testing.T) {
	finds := table.Rule{By: "finds(flag)", Call: &table.When{Op: "finds", Args: []*table.When{{Op: table.WhenParam,
		Name: "flag"}}}}
	got, err := written(t,
		rule("stream != NULL && !live(stream)", 107017, "ACL_ERROR_RT_INVALID_HANDLE"),
		rule("captured(stream)", 107027, "ACL_ERROR_RT_STREAM_CAPTURED"),
		rule("flag < 4", 107001, "ACL_ERROR_RT_INVALID_DEVICEID"),
		rule("stream == NULL && !context()", 107002, "ACL_ERROR_RT_CONTEXT_NULL"),
		finds)
	testenv.OK(t, err)
	for _, want := range []string{
		"(theStream *Stream, theFlag *thing, err *Error)",
		"theStream, err = t.StreamOrDefault(api, theStream); err != nil { // rule-4",
		"theFlag, err = t.finds(api, bits); err != nil { // rule-5",
		"err = Captured(api, theStream)",
		`err = t.NoDevice(api, "flag", int64(bits))`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in\n%s", want, got)
		}
	}
	devices, err := written(t,
		rule("!physical(flag)", 107001, "ACL_ERROR_RT_INVALID_DEVICEID"),
		rule("!open(flag)", 507033, "ACL_ERROR_RT_DEV_SETUP_ERROR"))
	testenv.OK(t, err)
	for _, want := range []string{`theFlag, err = t.Physical(api, "flag", int32(bits))`,
		`err = theFlag.NotSet(api, "flag")`} {
		if !strings.Contains(devices, want) {
			t.Errorf("%q is missing in\n%s", want, devices)
		}
	}
}

// TestChecksRefused: what cannot be written stops the generator.
func TestChecksRefused(t *testing.T) {
	for when, want := range map[string]string{
		"elsewhere(stream)": "needs a rule about the context",
		"deviceOnly(event)": "looked up before",
		"!live(event)":      "107017, not 107000",
	} {
		if _, err := written(t, rule(when, 107000, "ACL_ERROR_RT_PARAM_INVALID")); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", when, err, want)
		}
	}
}

// TestRuleCases: the call of a case breaks its rule and none before it; alone none at all besides, where that can be;
// and the order is tried.
func TestRuleCases(t *testing.T) {
	tab, err := table.Load()
	testenv.OK(t, err)
	cases, err := ruleCases(tab)
	testenv.OK(t, err)
	orders, more, good := 0, 0, 0
	for _, c := range cases {
		for _, r := range breakable(c.f) {
			if r.holds(c.scene) != (r.Rule == c.rule) {
				t.Errorf("%s: rule %s: rule %s, arguments %v", c.f.Name, c.name(), r.Name, c.arguments())
			}
			if r.Rule == c.rule {
				break
			}
		}
		orders, more, good = orders+bit(c.order), more+bit(c.more), good+bit(c.rule == nil)
	}
	if orders < 600 || more < 400 || good < 250 {
		t.Errorf("%d cases about the order, %d others, %d good ones", orders, more, good)
	}
}
