package doctest

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"ropeway/internal/testenv"
)

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	anchor  = regexp.MustCompile(`<a id="([^"]+)">`)
	notWord = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	fenced  = regexp.MustCompile("(?ms)^```.*?^```$")
)

// anchors are the places of a page that links can name, as GitHub makes them of headings.
func anchors(text string) map[string]bool {
	all := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
		all[strings.ReplaceAll(notWord.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-")] = true
	}
	for _, m := range anchor.FindAllStringSubmatch(text, -1) {
		all[m[1]] = true
	}
	return all
}

// TestLinks: links between pages and to files of the repository lead somewhere.
func TestLinks(t *testing.T) {
	known := map[string]map[string]bool{} // anchors, by file
	for _, p := range pages(t) {
		name := filepath.Join(root, p.name)
		text, err := os.ReadFile(name)
		testenv.OK(t, err)
		for _, m := range link.FindAllStringSubmatch(fenced.ReplaceAllString(string(text), ""), -1) {
			to, place, _ := strings.Cut(m[1], "#")
			if strings.Contains(to, "://") {
				continue
			}
			target := name
			if to != "" {
				target = filepath.Join(filepath.Dir(name), to)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: %s leads nowhere", p.name, m[1])
				continue
			}
			if place == "" || filepath.Ext(target) != ".md" {
				continue
			}
			if known[target] == nil {
				there, err := os.ReadFile(target)
				testenv.OK(t, err)
				known[target] = anchors(string(there))
			}
			if !known[target][place] {
				t.Errorf("%s: %s names a place that is not there", p.name, m[1])
			}
		}
	}
}

// TestGlossary: the files that docs/glossary.md names for the words of the code are there, and no word is explained
// twice.
func TestGlossary(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs/glossary.md"))
	testenv.OK(t, err)
	seen := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^\| \*([^|]+?)\*.*\|(.*)\|$`).FindAllStringSubmatch(string(text), -1) {
		if seen[m[1]] {
			t.Errorf("%q is explained twice", m[1])
		}
		seen[m[1]] = true
		for _, file := range regexp.MustCompile("`([\\w./]+/[\\w./]*)`").FindAllStringSubmatch(m[2], -1) {
			if _, err := os.Stat(filepath.Join(root, file[1])); err != nil && strings.Count(m[0], "|") == 4 {
				t.Errorf("%q: %v", m[1], err)
			}
		}
	}
	if len(seen) < 40 {
		t.Errorf("only %d words were found", len(seen))
	}
}

// TestIndexHasAll: docs/index.md leads to every page.
func TestIndexHasAll(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs/index.md"))
	testenv.OK(t, err)
	var linked []string
	for _, m := range link.FindAllStringSubmatch(string(text), -1) {
		linked = append(linked, m[1])
	}
	for _, p := range pages(t) {
		name, below := strings.CutPrefix(p.name, "docs/")
		if below && name != "index.md" && !slices.Contains(linked, name) {
			t.Errorf("docs/index.md does not lead to %s", name)
		}
	}
}
