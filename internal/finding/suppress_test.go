package finding

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"

	"ropeway/internal/testenv"
)

const example = `# Known to us.

[ring buffer, fixed in the next release]
rule: host-*-in-flight
offence:
    ring::Buffer<int, *>::front() const at ring.h
    ...
	main at app/main.cc:90 in app
# between
submitted:
    ...
    main

[all leaks]
rule: leak
`

func parsed(t *testing.T, text string) []*Suppression {
	t.Helper()
	list, err := ParseSuppressions("known", text)
	testenv.OK(t, err)
	return list
}

func TestParseSuppressions(t *testing.T) {
	want := []*Suppression{
		{Name: "ring buffer, fixed in the next release", Rule: "host-*-in-flight", From: "known:3",
			Stacks: []StackPattern{
				{"offence", []FramePattern{{Function: "ring::Buffer<int, *>::front() const", File: "ring.h"},
					{Any: true}, {Function: "main", File: "app/main.cc", Line: 90, Module: "app"}}},
				{"submitted", []FramePattern{{Any: true}, {Function: "main"}}}}},
		{Name: "all leaks", Rule: "leak", From: "known:14"},
	}
	for _, text := range []string{example, strings.ReplaceAll(example, "\n", "\r\n"),
		strings.TrimSuffix(example, "\n")} {
		if got := parsed(t, text); !reflect.DeepEqual(got, want) {
			t.Errorf("%+v", got)
		}
	}
	for _, text := range []string{"", "\n\n", "# nothing\n  # indented\n"} {
		if got := parsed(t, text); got != nil {
			t.Errorf("%q: %+v", text, got)
		}
	}
}

// TestParseErrors proves that each error has its line and says what to write.
func TestParseErrors(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"rule: leak", "f:1: a suppression begins with its name: [why"},
		{"[a]", "f:1: [a] has no rule"},
		{"\n[a]\n\n[b]\nrule: leak", "f:2: [a] has no rule"},
		{"[a]\nrule: leek", `f:2: there is no rule "leek"; did you mean leak?`},
		{"[a]\nrule:", `f:2: there is no rule ""`},
		{"[a]\nrule: leak\nrule: misaligned", "f:3: there is a rule already"},
		{"[]\nrule: leak", "f:1: a name is written like"},
		{"[a\nrule: leak", "f:1: a name is written like"},
		{"[a]\nrule: leak\noffence:\n", "f:3: there are no frames below offence:"},
		{"[a]\nrule: leak\noffence:\nsubmitted:\n  f", "f:3: there are no frames below offence:"},
		{"[a]\nrule: leak\noffence: f", "f:3: frames stand on lines of their own"},
		{"[a]\nrule: leak\noffence\n  f", "f:3: \"offence\" is no [name]"},
		{"[a]\nrule: leak\n  f", "f:3: a frame stands below the role"},
		{"  f", "f:1: a frame stands below the role"},
		{"[a]\noffence:\n  f\nrule: leak\n  g", "f:5: a frame stands below"},
		{"[a]\nrule: leak\noffence:\n   at x.c", ""},
		{"[a]\nrule: leak\noffence:\n  ... at x.c", `f:4: "... at x.c" has no function; write * for any`},
		{"[a]\nrule: leak\n*:\n  f", `f:3: "*" is no role`},
		{"[a]\nrule: leak\noffence:\n  f\xff", "f:4: this is not UTF-8"},
	} {
		_, err := ParseSuppressions("f", tt.text)
		var syntax *SyntaxError
		if tt.want == "" && err != nil || tt.want != "" && (!errors.As(err, &syntax) ||
			!strings.HasPrefix(err.Error(), tt.want)) {
			t.Errorf("%q: %v, want %s", tt.text, err, tt.want)
		}
	}
}

// TestMatches proves which patterns match a stack of c in b.c, b, a, main and another site.
func TestMatches(t *testing.T) {
	frame := func(f string) Frame {
		return Frame{Function: f, File: "/src/lib/" + f + ".c", Line: 5, Module: "/lib/lib" + f + ".so"}
	}
	f := &Finding{Rule: "stream-race",
		Offence: Site{Role: "submitted", Stack: []Frame{frame("c"), frame("b"), frame("a"), frame("main")}},
		Others: []Site{{Role: "submitted", Stack: []Frame{frame("x"), frame("main")}}, {Role: "allocated",
			Stack: []Frame{frame("y")}}, {Role: "freed"}}}
	for _, tt := range []struct {
		text string
		want bool
	}{
		{"rule: stream-race", true}, {"rule: *", true}, {"rule: *race", true}, {"rule: leak", false},
		{"offence:|c", true}, {"offence:|b", false}, {"offence:|c|b|a|main", true}, {"offence:|c|b|a|main|x", false},
		{"offence:|c|b|a|main|...", true},
		{"offence:|c|a", false}, {"offence:|c|...|a", true}, {"offence:|...|a", true}, {"offence:|...|x", false},
		{"offence:|...|b|...|main", true},
		{"offence:|...|main|...|b", false}, {"offence:|...|...|main", true}, {"offence:|*|*|*|*", true},
		{"offence:|*|*|*|*|*", false},
		{"offence:|c at c.c", true}, {"offence:|c at lib/c.c", true}, {"offence:|c at ib/c.c", false},
		{"offence:|c at /src/lib/c.c", true}, {"offence:|c at /lib/c.c", false},
		{"offence:|c at *.c", true}, {"offence:|c at *.h", false}, {"offence:|c at c.c:5", true},
		{"offence:|c at c.c:6", false},
		{"offence:|c in libc.so", true}, {"offence:|c in libd.so", false}, {"offence:|c at c.c in lib*", true},
		{"submitted:|x", true}, {"submitted:|c", true}, {"submitted:|y", false}, {"allocated:|y", true},
		{"allocated:|c", false}, {"freed:|*", false}, {"freed:|...", true},
		{"copied:|...", false}, {"offence:|c|allocated:|y", true}, {"offence:|c|allocated:|x", false},
	} {
		text := "[n]\n"
		if !strings.HasPrefix(tt.text, "rule") {
			text += "rule: *\n"
		}
		for _, line := range strings.Split(tt.text, "|") {
			if !strings.HasSuffix(line, ":") && !strings.HasPrefix(line, "rule") {
				line = "  " + line
			}
			text += line + "\n"
		}
		if got := parsed(t, text)[0].Matches(f); got != tt.want {
			t.Errorf("%s: %t", tt.text, got)
		}
	}
	if !parsed(t, example)[0].Matches(&sample().Findings[0].Finding) || Suppressor(parsed(t, example),
		&sample().Findings[1].Finding) != nil {
		t.Error("the example does not fit what it is for")
	}
}

// TestWriteSuppressions proves that a written file can be read, and matches each finding and nothing else.
func TestWriteSuppressions(t *testing.T) {
	list := sample().Findings
	var b bytes.Buffer
	testenv.OK(t, WriteSuppressions(&b, append(list, list[0])))
	golden(t, "suppressions.txt", b.String())
	read := parsed(t, b.String())
	if len(read) != len(list) {
		t.Errorf("%d suppressions for %d findings", len(read), len(list))
	}
	for i, s := range read {
		for j, e := range list {
			if s.Matches(&e.Finding) != (i == j) {
				t.Errorf("suppression %d, finding %d: %t", i, j, i != j)
			}
		}
	}
}

// FuzzSuppressions proves that the parser fails only with an error that names a line, and that accepted text is
// unchanged by writing and reading.
func FuzzSuppressions(f *testing.F) {
	f.Add(example)
	f.Add("[a]\nrule: *\noffence:\n  f at x:1:2 in m in n\n  at at at\n\tin in in\n")
	f.Add("[[a]]\nrule:leak\na b:\n ...\n")
	f.Fuzz(func(t *testing.T, text string) {
		list, err := ParseSuppressions("f", text)
		if err != nil {
			var syntax *SyntaxError
			if !errors.As(err, &syntax) || syntax.Line < 1 || syntax.Line > strings.Count(text, "\n")+1 {
				t.Fatalf("%v", err)
			}
			return
		}
		var b strings.Builder
		for _, s := range list {
			b.WriteString(s.String())
		}
		again, err := ParseSuppressions("f", b.String())
		if err != nil || len(again) != len(list) {
			t.Fatalf("%v in\n%s", err, b.String())
		}
		for i := range list {
			again[i].From = list[i].From
			if !reflect.DeepEqual(list[i], again[i]) {
				t.Fatalf("%+v became %+v", list[i], again[i])
			}
		}
	})
}

// FuzzFor proves that the suppression of a finding can be read again and matches the finding, whatever its names are.
func FuzzFor(f *testing.F) {
	f.Add("operator()(int) const", "/src/my in dir/a at b.c", "/lib/x y.so", "submitted")
	f.Add("f at in x", "in x", "at", "rule")
	f.Add("...", "a:12", "#", "")
	f.Fuzz(func(t *testing.T, function, file, module, role string) {
		one := []Frame{{Function: function, File: file, Module: module}, {Function: function, Module: module},
			{Function: function}}
		x := &Finding{Rule: "leak", Offence: Site{Role: role, Stack: one}, Others: []Site{{Role: role, Stack: one[1:]}}}
		s := For(x)
		if !s.Matches(x) {
			t.Fatalf("does not fit:\n%s", s)
		}
		list, err := ParseSuppressions("f", s.String())
		if err != nil || len(list) != 1 {
			t.Fatalf("%v:\n%s", err, s)
		}
		if list[0].From = ""; !reflect.DeepEqual(list[0], s) {
			t.Fatalf("%+v became %+v", s, list[0])
		}
	})
}
