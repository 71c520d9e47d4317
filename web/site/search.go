package main

import (
	"encoding/json"
	"path"
	"slices"
	"strings"
)

// section is a part of a page that the search finds.
type section struct {
	title, anchor string
	text          string
}

// searchIndex writes what the search reads. It is a script, because pages that were opened from disk may load scripts
// and nothing else.
func (s *site) searchIndex() {
	type entry struct {
		Path    string `json:"p"`
		Title   string `json:"t"`
		Section string `json:"s,omitempty"`
		Also    string `json:"a,omitempty"` // another name of the page
		Text    string `json:"x,omitempty"`
		Rank    int    `json:"r,omitempty"` // what is first among equals is lower
	}
	var all []entry
	var paths []string
	for name, p := range s.pages {
		if p.Class != "source" {
			paths = append(paths, name)
		}
	}
	slices.Sort(paths)
	for _, name := range paths {
		p := s.pages[name]
		rank := 0
		switch {
		case strings.HasPrefix(name, "types/"):
			rank = 2
		case strings.HasPrefix(name, "docs/record/"), p.Class == "document" && path.Dir(name) == ".":
			rank = 1
		}
		for i := range p.sections {
			part := &p.sections[i]
			e := entry{Path: name, Title: p.Title, Also: p.also, Section: part.title,
				Text: strings.Join(strings.Fields(part.text), " "), Rank: rank}
			if part.title != "" {
				e.Path += "#" + part.anchor
			}
			all = append(all, e)
		}
	}
	text, err := json.Marshal(all)
	if err != nil {
		s.errs = append(s.errs, err)
	}
	s.files[mark] = append(append([]byte("window.ropewaySearch="), text...), ";\n"...)
}
