package main

import (
	"path"
	"slices"
	"strings"
	"testing"

	"ropeway/internal/testenv"
	"ropeway/spec/table"
)

func TestWrap(t *testing.T) {
	for _, tt := range []struct {
		text  string
		width int
		want  []string
	}{
		{"", 10, nil},
		{"one two", 7, []string{"one two"}},
		{"one two", 6, []string{"one", "two"}},
		{"one  \n two three", 9, []string{"one two", "three"}},
		{"a muchtoolongword b", 5, []string{"a", "muchtoolongword", "b"}},
	} {
		if got := wrap(tt.text, tt.width); !slices.Equal(got, tt.want) {
			t.Errorf("wrap(%q, %d) is %q, want %q", tt.text, tt.width, got, tt.want)
		}
	}
}

func TestWrapPrototype(t *testing.T) {
	long := "int f(" + strings.Repeat("int aaaaaaaaaa, ", 20) + "int b)"
	got := wrapPrototype(long)
	for line := range strings.SplitSeq(got, "\n") {
		if len(line) > textWidth || strings.TrimRight(line, " ") != line {
			t.Errorf("bad line %q", line)
		}
	}
	if joined := strings.ReplaceAll(got, "\n    ", " "); joined != long {
		t.Errorf("wrapping changed the prototype to %q", joined)
	}
	if short := "int f(int a, int b)"; wrapPrototype(short) != short {
		t.Errorf("a short prototype was wrapped: %q", wrapPrototype(short))
	}
}

// TestCommentsEndWhereTheyShould proves that no text of the table can end or nest a C comment.
func TestCommentsEndWhereTheyShould(t *testing.T) {
	w := newCWriter(nil)
	w.comment("ends */ here", "and /* begins")
	if got := w.b.String(); strings.Count(got, "/*") != 1 || strings.Count(got, "*/") != 1 {
		t.Errorf("comment is %q", got)
	}
}

func TestFunctionComment(t *testing.T) {
	tab, err := table.Load()
	testenv.OK(t, err)
	for _, tt := range []struct{ name, has, lacks string }{
		{"aclrtMemcpy", "Errors: 100000, 107000, 107002", "Not yet built"},
		{"aclrtMemcpyBatchAsyncV2", trialBatch, "Not yet built"},
		{"aclrtQueryEvent", "Deprecated: use aclrtQueryEventStatus.", "trial"},
		{"acldumpGetPath", "Not built, since ropeway is the runtime alone, returns NULL.", "Errors:"},
		{"aclprofInit", "Not yet built, returns 207000", "Errors:"},
	} {
		f := tab.Function(tt.name)
		got := strings.Join(newCWriter(tab).functionComment(f), "\n")
		if !strings.Contains(got, tt.has) || strings.Contains(got, tt.lacks) {
			t.Errorf("%s: %q should have %q and lack %q", tt.name, got, tt.has, tt.lacks)
		}
	}
}

// TestEnumsFitInt proves that an enumerator C99 cannot hold stops the generator.
func TestEnumsFitInt(t *testing.T) {
	w := newCWriter(&table.Table{})
	e := table.Enum{Name: "e", Members: []table.Member{{Name: "TOO_BIG", Value: 1 << 31}}}
	if err := w.enum(e); err == nil || !strings.Contains(err.Error(), "TOO_BIG") {
		t.Errorf("error %v does not name TOO_BIG", err)
	}
}

// TestHeadersAreListed proves that every header is an output, marked as generated.
func TestHeadersAreListed(t *testing.T) {
	tab, err := table.Load()
	testenv.OK(t, err)
	for _, f := range cFiles {
		i := slices.IndexFunc(outputs, func(o output) bool { return o.path == path.Join("capi/include/acl", f.name) })
		if i < 0 {
			t.Errorf("%s is not among the outputs", f.name)
			continue
		}
		data, err := generate(outputs[i], tab, "")
		if err != nil || !strings.HasPrefix(string(data), cHeader) {
			t.Errorf("%s: %v, or no generated-code mark", f.name, err)
		}
	}
}

// TestStrayHeader proves that an entry of the table which names an unknown header is refused.
func TestStrayHeader(t *testing.T) {
	tab := &table.Table{Functions: []*table.Function{{Name: "f", Header: "nowhere.h"}}}
	if err := checkHeaders(tab); err == nil || !strings.Contains(err.Error(), "nowhere.h") {
		t.Errorf("error %v does not name the header", err)
	}
}
