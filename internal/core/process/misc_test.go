package process

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ropeway/internal/core"
	"ropeway/internal/testenv"
)

func TestVersionNumber(t *testing.T) {
	for text, want := range map[string]int32{
		"8.5.0":           80500000,
		"0.0.1":           1000,
		"9.2.13":          90213000,
		"8.5.0.alpha1":    80499701,
		"8.5.0-beta.2":    80499802,
		"8.5.0rc3":        80499903,
		"8.5.0.RC1":       80499901,
		"8.5.0.alpha":     80499700,
		"214.0.0":         2140000000,
		"215.0.0":         -1, // no int32
		"99999999999.0.0": -1,
		"8.5":             -1,
		"8.5.0.1":         -1,
		"8.0.RC1":         -1,
		"8.5.0.gamma1":    -1,
		"":                -1,
		"8.5.0 ":          -1,
	} {
		got, ok := versionNumber(text)
		if !ok {
			got = -1
		}
		if got != want {
			t.Errorf("%q: got %d, want %d", text, got, want)
		}
	}
}

func TestVersionFiles(t *testing.T) {
	home := t.TempDir()
	write := func(dir, text string) {
		t.Helper()
		dir = filepath.Join(home, dir)
		testenv.OK(t, os.MkdirAll(dir, 0o755))
		testenv.OK(t, os.WriteFile(filepath.Join(dir, "version.info"), []byte(text), 0o644))
	}
	write("share/info/runtime", "# comment\ntimestamp=2025\r\nVersion = 8.5.0\r\n")
	write("runtime", "Version=1.0.0")
	write("opp", "version=7.0.1")
	write("empty", "timestamp=2025\n")
	rt := &core.Runtime{Home: home}
	for name, want := range map[string]string{
		"runtime": "8.5.0", "opp": "7.0.1", "empty": "", "nothing": "", "": "", "share/info/runtime": "", "../" +
			filepath.Base(home): "",
	} {
		if got, ok := packageVersion(rt, name); got != want || ok != (want != "") {
			t.Errorf("%q: got %q, %t", name, got, ok)
		}
	}
	if _, ok := packageVersion(&core.Runtime{}, "runtime"); ok {
		t.Error("there is a version without ASCEND_HOME_PATH")
	}
}

func TestNesting(t *testing.T) {
	for text, want := range map[string]int{
		``: 0, `3`: 0, `{}`: 1, `[[]]`: 2, `{"a":[{"b":[]}]}`: 2, `{"{{{":"\"{{"}`: 1, `[{},{}]`: 1,
		strings.Repeat("[", 11) + strings.Repeat("]", 11): 11,
	} {
		if got := nesting(text); got != want {
			t.Errorf("%s: got %d, want %d", text, got, want)
		}
	}
}
