package capitest

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"ropeway/internal/finding"
	"ropeway/internal/testenv"
)

// checkPage is the page about the checker.
const checkPage = "docs/check.md"

var (
	checkFence = regexp.MustCompile("(?ms)^```([a-z]+)(?: ([\\w.]+))?\n(.*?)^```$")
	number     = regexp.MustCompile(`0x[0-9a-f]+`)
)

// TestCheckPage: what the page shows of a program is in the program, and the reports are what the checker says of it.
// With ROPEWAY_UPDATE=1 the reports of the page are written anew.
func TestCheckPage(t *testing.T) {
	path := filepath.Join(root, checkPage)
	text, err := os.ReadFile(path)
	testenv.OK(t, err)
	shown := map[string]bool{}
	update := os.Getenv("ROPEWAY_UPDATE") != ""
	fresh := checkFence.ReplaceAllStringFunc(string(text), func(whole string) string {
		m := checkFence.FindStringSubmatch(whole)
		language, name, body := m[1], m[2], m[3]
		if !slices.Contains(checkPrograms(t), name) {
			return whole
		}
		w := readWanted(t, name)
		if language != "text" {
			if err := w.excerpt(body); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			return whole
		}
		shown[w.rule] = true
		got := w.reportText(t)
		if got != body && !update {
			t.Errorf("%s: the page says\n%s\nand the checker\n%s", name, body, got)
		}
		return "```text " + name + "\n" + got + "```"
	})
	for _, r := range finding.Rules {
		if !shown[r.Name] || !strings.Contains(string(text), "\n### "+r.Name+"\n") {
			t.Errorf("the page has no section, or no report, of %s", r.Name)
		}
	}
	if update && !t.Failed() && fresh != string(text) {
		testenv.OK(t, os.WriteFile(path, []byte(fresh), 0o644))
	}
}

// excerpt reports whether lines stand together in the program, indented alike.
func (w *wanted) excerpt(body string) error {
	text, err := os.ReadFile(filepath.Join(checkDir, w.name))
	if err != nil {
		return err
	}
	all := strings.Split(string(text), "\n")
	lines := strings.Split(strings.TrimSuffix(body, "\n"), "\n")
	for i := range len(all) - len(lines) + 1 {
		if sameText(all[i:i+len(lines)], lines) {
			return nil
		}
	}
	return fmt.Errorf("the page shows lines that are not in the program:\n%s", body)
}

// sameText compares lines, whose indentation may differ, but by the same for all. Directives of the preprocessor have
// none.
func sameText(full, shown []string) bool {
	indent := ""
	for i, line := range full {
		if !strings.HasPrefix(line, "#") && strings.TrimSpace(line) != "" {
			indent = strings.TrimSuffix(line, strings.TrimLeft(shown[i], " \t"))
			indent = strings.TrimSuffix(indent, shown[i][:len(shown[i])-len(strings.TrimLeft(shown[i], " \t"))])
			break
		}
	}
	for i, line := range full {
		if line != shown[i] && line != indent+shown[i] {
			return false
		}
	}
	return true
}

// reportText is what the checker says of the wrong program, without what is another each time and on each machine.
func (w *wanted) reportText(t *testing.T) string {
	t.Helper()
	w.need(t)
	r, report := check(t, w.options, w.build(t, false)...)
	if err := w.compare(report); err != nil {
		t.Fatalf("%s: %v\n%s", w.name, err, r.stderr)
	}
	f := report.Findings[0].Finding
	f.Process, f.Count = 0, w.count
	tidy(&f.Offence)
	for i := range f.Others {
		tidy(&f.Others[i])
	}
	l := finding.Layout{Width: 110, Dir: checkDir, Sources: &finding.Sources{}}
	text := number.ReplaceAllString(l.Text(&f), "0x…")
	if w.bytes != nil && w.bytes.length == 0 {
		text = strings.ReplaceAll(text, fmt.Sprintf(" %d bytes", f.Bytes.Length), " … bytes")
	}
	return text
}

// tidy keeps of a site what is the same everywhere: frames of the programs themselves.
func tidy(s *finding.Site) {
	s.Thread = 0
	s.Stack = slices.DeleteFunc(s.Stack, func(f finding.Frame) bool {
		return filepath.Base(filepath.Dir(f.File)) != filepath.Base(checkDir)
	})
	for i := range s.Stack {
		s.Stack[i].File, s.Stack[i].Module, s.Stack[i].Inlined = filepath.Base(s.Stack[i].File), "", false
	}
}

// TestCheckPageOptions: the page has all options of the command, and no others.
func TestCheckPageOptions(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, checkPage))
	testenv.OK(t, err)
	kit := toolkit(t)
	help := passes(t, nil, filepath.Join(kit, "bin", "ropeway"), "check", "--help")
	run := passes(t, nil, filepath.Join(kit, "bin", "ropeway"), "run", "--help")
	option := regexp.MustCompile(`--[a-z][a-z-]+`)
	for _, name := range option.FindAllString(help, -1) {
		if name != "--help" && !strings.Contains(run, name) && !strings.Contains(string(text), name) &&
			name != "--its-own-flag" {
			t.Errorf("the page does not describe %s", name)
		}
	}
	start := strings.Index(string(text), "\n## Options\n")
	section, _, _ := strings.Cut(string(text)[start+1:], "\n## ")
	for _, name := range option.FindAllString(section, -1) {
		if !strings.Contains(help, name) {
			t.Errorf("the page describes %s, and there is no such option", name)
		}
	}
}
