package table

import (
	"slices"
	"testing"
)

// state is a call for expressions: stream 7 lives, 8 lives elsewhere.
type state struct {
	args    map[string]int64
	context bool
}

func (s state) Value(p string) int64 { return s.args[p] }
func (s state) Is(predicate, p string) bool {
	v := s.args[p]
	return predicate == "live" && (v == 7 || v == 8) || predicate == "elsewhere" && v == 8 ||
		predicate == "self" && v == 42 ||
		predicate == "context" && s.context
}
func (s state) Product() string { return "A2" }
func (s state) Form() string    { return "EP" }

func TestWhen(t *testing.T) {
	s := state{map[string]int64{"null": 0, "n": 3, "live": 7, "far": 8, "dead": 9, "pid": 42, "big": 1<<32 + 1,
		"s.mode": 5}, true}
	for text, want := range map[string]bool{
		"null == NULL":                    true,
		"n == NULL":                       false,
		"n != NULL && !live(n)":           true,
		"live != NULL && !live(live)":     false,
		"n < 0 || n > 2":                  true,
		"n < 0 || n > 3":                  false,
		"n <= 3 && n >= 3":                true,
		"n > -1":                          true,
		"!(n == 3)":                       false,
		"n == 1 || n == 2 && null == 0":   false,
		"(n == 1 || n == 3) && null == 0": true,
		"!context()":                      false,
		"elsewhere(far) && live(far)":     true,
		"elsewhere(live)":                 false,
		"captured(live) || bound(live)":   false,
		"product(310B, 910)":              false,
		"!product(950, A3, A2)":           false,
		"product(A2) && form(EP)":         true,
		"form(RC)":                        false,
		"!self(n) && self(pid)":           true,
		"live(dead)":                      false,
		"n == far":                        false,
		"(n & 2) != 0":                    true,
		"(n & 0x4) != 0":                  false,
		"uint32(big) == 1":                true,
		"int32(big) < 0 || big < 0":       false,
		"s.mode == 5 && null == NULL":     true,
	} {
		w, err := ParseWhen(text)
		if err != nil {
			t.Error(err)
			continue
		}
		if got := w.Holds(s); got != want {
			t.Errorf("%s: %t", text, got)
		}
	}
	w, err := ParseWhen("a == NULL || live(b) && a.x != 3")
	if err != nil || !slices.Equal(w.Params(), []string{"a", "b"}) {
		t.Errorf("%v %v", w, err)
	}
	for _, text := range []string{"", "n", "n ==", "== 3", "n = 3", "n == 3 &&", "(n == 3", "n == 3)", "live()",
		"live(a, b)", "context(a)", "product()", "dead(n)", "n == 3 4", "n + 1 == 2", "(n & m) == 1", "(n & 1 == 1",
		"int32(n == 1"} {
		if w, err := ParseWhen(text); err == nil {
			t.Errorf("%q is read as %+v", text, w)
		}
	}
}
