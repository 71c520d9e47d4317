package main

import (
	"bytes"
	"fmt"
	"html/template"
	"os"
	"path/filepath"
	"strings"
)

// sources makes pages of the files and directories that pages link to.
func (s *site) sources() {
	done := map[string]bool{}
	for len(s.pending) > 0 {
		file := s.pending[0]
		s.pending = s.pending[1:]
		if done[file] {
			continue
		}
		done[file] = true
		name := filepath.Join(s.root, filepath.FromSlash(file))
		info, err := os.Stat(name)
		switch {
		case err != nil:
			s.errs = append(s.errs, err)
		case info.IsDir():
			s.directory(file, name)
		default:
			s.source(file, name)
		}
	}
}

// directory lists the files of a directory.
func (s *site) directory(file, name string) {
	p := &page{Title: file, Path: "src/" + file + "/index.html", Source: file, Class: "source"}
	entries, err := os.ReadDir(name)
	if err != nil {
		s.errs = append(s.errs, err)
		return
	}
	var b strings.Builder
	fmt.Fprintf(&b, "<h1>%s</h1>\n<ul>\n", template.HTMLEscapeString(file))
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") || e.Name() == "node_modules" || e.Name() == "__pycache__" {
			continue
		}
		below := file + "/" + e.Name()
		to, ok := s.markdown[below]
		if !ok {
			to = s.sourceTarget(p, below)
		}
		text := e.Name()
		if e.IsDir() {
			text += "/"
		}
		fmt.Fprintf(&b, "<li><a href=\"%s\">%s</a></li>\n", p.Rel(to), template.HTMLEscapeString(text))
	}
	b.WriteString("</ul>\n")
	p.Body = template.HTML(b.String()) //nolint:gosec // escaped above
	s.add(p)
}

// source shows a file.
func (s *site) source(file, name string) {
	text, err := os.ReadFile(name)
	if err != nil {
		s.errs = append(s.errs, err)
		return
	}
	if bytes.IndexByte(text, 0) >= 0 {
		text = []byte("(binary)")
	}
	s.add(&page{Title: file, Path: "src/" + file + ".html", Source: file, Class: "source",
		Body: template.HTML("<h1>" + template.HTMLEscapeString(file) + "</h1>\n" + //nolint:gosec // escaped
			codeBlock("", string(text)))})
}
