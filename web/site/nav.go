package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// navGroup is a part of the list of pages.
type navGroup struct {
	Title string
	Links []navLink
}

// navLink is a page in the list.
type navLink struct {
	Title, Path string // Path is of the site
}

var (
	navHeading = regexp.MustCompile(`^## (.*)$`)
	navLinks   = regexp.MustCompile(`\]\(([^)#\s]+\.md)\)`)
)

// navigation takes the list of pages from docs/index.md: its headings, and the links of its tables' first column.
func (s *site) navigation() {
	const index = "docs/index.md"
	text, err := os.ReadFile(filepath.Join(s.root, filepath.FromSlash(index)))
	if err != nil {
		s.errs = append(s.errs, err)
		return
	}
	var groups []navGroup
	seen := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		if m := navHeading.FindStringSubmatch(strings.TrimSpace(line)); m != nil {
			groups = append(groups, navGroup{Title: m[1]})
			continue
		}
		if !strings.HasPrefix(line, "| ") || len(groups) == 0 {
			continue
		}
		first, _, _ := strings.Cut(line[2:], " | ")
		for _, m := range navLinks.FindAllStringSubmatch(first, -1) {
			to := s.markdown[resolve(index, m[1])]
			if p := s.pages[to]; p != nil && !seen[to] {
				seen[to] = true
				g := &groups[len(groups)-1]
				g.Links = append(g.Links, navLink{p.Title, to})
			}
		}
	}
	api := navGroup{"The API", []navLink{
		{"Functions", functionsPage}, {"Error codes", codesPage}, {"Types and macros", typesPage},
	}}
	// The last group is for those who change the project.
	s.Nav = slices.Insert(groups, max(0, len(groups)-1), api, goNavigation())
}
