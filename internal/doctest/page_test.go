package doctest

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"ropeway/internal/testenv"
)

// root is the repository.
const root = "../.."

// page is a page of the documentation.
type page struct {
	name   string // from the root
	tested *proof // of all of it, which is not run here then; nil if there is none
	also   *proof // of something in it; nil if there is none
	blocks []block
	wrong  []string // what cannot be understood
}

// block is a fenced block.
type block struct {
	line           int
	language, file string
	text           string
	skipped        string // why it is not run
	tested         *proof
}

// proof names tests.
type proof struct {
	dir   string
	tests []string
}

var (
	comment = regexp.MustCompile(`^<!-- (not run|tested|also tested): (.*?) -->$`)
	opening = regexp.MustCompile("^```(?:([a-z0-9]+)(?: ([\\w./-]+))?)?$")
	// indented is a command that is hidden from the test by not being in a fence.
	indented = regexp.MustCompile(
		`^ {4}(?:make|go|git|ropeway|gcc|g\+\+|cmake|ctest|python3|pip|\.|qemu-\w+|sudo|apt-get) \S`)
)

// read takes a page apart.
func read(name, text string) *page {
	p := &page{name: name}
	lines := strings.Split(text, "\n")
	var pending []string // the comment that waits for its block
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		if m := comment.FindStringSubmatch(line); m != nil {
			pending = m[1:]
			continue
		}
		m := opening.FindStringSubmatch(line)
		switch {
		case strings.HasPrefix(line, "# ") && pending != nil && pending[0] == "tested" && p.tested == nil:
			p.tested, pending = readProof(pending[1]), nil
		case strings.HasPrefix(line, "# ") && pending != nil && pending[0] == "also tested" && p.also == nil:
			p.also, pending = readProof(pending[1]), nil
		case m != nil:
			b := block{line: i + 1, language: m[1], file: m[2]}
			if pending != nil && pending[0] == "tested" {
				b.tested = readProof(pending[1])
			} else if pending != nil {
				b.skipped = pending[1]
			}
			pending = nil
			for i++; i < len(lines) && lines[i] != "```"; i++ {
				b.text += lines[i] + "\n"
			}
			if i == len(lines) {
				p.wrong = append(p.wrong, fmt.Sprintf("line %d: the block does not end", b.line))
			}
			p.blocks = append(p.blocks, b)
		case strings.HasPrefix(line, "```"):
			p.wrong = append(p.wrong, fmt.Sprintf("line %d: %q is not understood", i+1, line))
		case indented.MatchString(line):
			p.wrong = append(p.wrong, fmt.Sprintf("line %d: put this command between ```sh and ```, so that it is "+
				"run: %q", i+1, line))
		case strings.TrimSpace(line) != "" && pending != nil:
			p.wrong = append(p.wrong, fmt.Sprintf("line %d: the comment above is of no block", i+1))
			pending = nil
		}
	}
	return p
}

func readProof(text string) *proof {
	words := strings.Fields(text)
	return &proof{words[0], words[1:]}
}

// pages are all pages.
func pages(t *testing.T) []*page {
	t.Helper()
	names := []string{filepath.Join(root, "README.md")}
	for _, pattern := range []string{"docs/*.md", "docs/record/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %d pages, %v", pattern, len(found), err)
		}
		names = append(names, found...)
	}
	var all []*page
	for _, name := range names {
		text, err := os.ReadFile(name)
		testenv.OK(t, err)
		rel, err := filepath.Rel(root, name)
		testenv.OK(t, err)
		all = append(all, read(filepath.ToSlash(rel), string(text)))
	}
	return all
}

// runs are languages whose blocks do something; all others are for reading.
var runs = map[string]bool{
	"sh": true, "bash": true, "console": true, "yaml": true, // here
	"c": true, "cpp": true, "go": true, "python": true, "pycon": true, "cmake": true, // as a file, or elsewhere
}

// here reports whether this package runs the block itself.
func (b *block) here() bool {
	return b.file != "" || slices.Contains([]string{"sh", "console", "yaml", "pycon"}, b.language)
}

// excerpt reports whether the block shows a part of one of the checker's programs, or its report.
func (b *block) excerpt() bool {
	_, err := os.Stat(filepath.Join(root, "capi/test/testdata/check", b.file))
	return b.file != "" && err == nil
}

// TestEveryBlockIsTested: no page shows a command or a program that nothing runs.
func TestEveryBlockIsTested(t *testing.T) {
	count := 0
	for _, p := range pages(t) {
		for _, wrong := range p.wrong {
			t.Errorf("%s: %s", p.name, wrong)
		}
		if p.tested != nil {
			p.tested.check(t, p.name, filepath.Base(p.name))
		}
		if p.also != nil {
			p.also.check(t, p.name, filepath.Base(p.name))
		}
		for _, b := range p.blocks {
			at := fmt.Sprintf("%s:%d", p.name, b.line)
			switch {
			case !runs[b.language]:
				continue
			case b.tested != nil:
				b.tested.check(t, at, b.text, p.name)
			case b.excerpt() && p.also == nil:
				t.Errorf("%s: nothing compares this excerpt with the program", at)
			case b.skipped == "" && p.tested == nil && !b.here():
				t.Errorf("%s: nothing runs this %s block: give it a file name and use the file, or name its test in "+
					"a comment (see internal/doctest)", at, b.language)
			}
			count++
		}
	}
	if count < 20 {
		t.Errorf("only %d blocks were found", count)
	}
}

// check looks for the tests, and for one of some texts in what they are made of: the page's name, or a block.
func (p *proof) check(t *testing.T, at string, wanted ...string) {
	t.Helper()
	dir := filepath.Join(root, filepath.FromSlash(p.dir))
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Errorf("%s: %v", at, err)
		return
	}
	var all strings.Builder
	for _, e := range entries {
		if ext := filepath.Ext(e.Name()); ext != ".go" && ext != ".py" {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		testenv.OK(t, err)
		all.Write(text)
	}
	for _, name := range p.tests {
		if !regexp.MustCompile(`(?m)^(?:func|class|def) ` + name + `\b`).MatchString(all.String()) {
			t.Errorf("%s: there is no test %s in %s", at, name, p.dir)
		}
	}
	known := func(text string) bool { return strings.Contains(squeezed(all.String()), squeezed(text)) }
	if len(p.tests) == 0 || !slices.ContainsFunc(wanted, known) {
		t.Errorf("%s: %s does not know it: no %.60q there", at, p.dir, wanted)
	}
}

// squeezed is text whose white space does not matter.
func squeezed(text string) string { return strings.Join(strings.Fields(text), " ") }

// TestRead: pages are taken apart as the package comment says.
func TestRead(t *testing.T) {
	p := read("x.md", "<!-- tested: a TestB TestC -->\n# T\n\n```sh\nmake x\n```\n\n<!-- not run: no GPU "+
		"-->\n\n```c f.c\nint x;\n\n```\n\n<!-- tested: d TestE -->\n```go\nx()\n```\n")
	if len(p.wrong) > 0 || len(p.blocks) != 3 || p.tested == nil || p.tested.dir != "a" || len(p.tested.tests) != 2 {
		t.Fatalf("%+v", p)
	}
	if b := p.blocks[0]; b.language != "sh" || b.file != "" || b.text != "make x\n" || b.skipped != "" ||
		b.tested != nil || b.line != 4 {
		t.Errorf("%+v", b)
	}
	if b := p.blocks[1]; b.file != "f.c" || b.text != "int x;\n\n" || b.skipped != "no GPU" {
		t.Errorf("%+v", b)
	}
	if b := p.blocks[2]; b.tested == nil || b.tested.dir != "d" || b.tested.tests[0] != "TestE" {
		t.Errorf("%+v", b)
	}
	for _, text := range []string{
		"```sh\nx\n", "```Odd thing\n```\n", "    make test\n", "    . dist/set_env.sh\n",
		"<!-- not run: x -->\nwords\n",
	} {
		if p := read("x.md", text); len(p.wrong) == 0 {
			t.Errorf("%q is taken for good: %+v", text, p)
		}
	}
	if p := read("x.md", "    program → libascendcl.so\n    time=2026 level=ERROR\n"); len(p.wrong) != 0 {
		t.Errorf("%+v", p)
	}
}
