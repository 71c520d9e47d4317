package main

import (
	"bytes"
	"fmt"
	"html/template"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/alecthomas/chroma/v2/lexers"
)

// example is a place of a program in examples/ that calls a function.
type example struct {
	file string
	line int // from 1
}

// exampleView is one on the page of a function.
type exampleView struct {
	File, Link string
	Line       int
	Code       template.HTML
}

// exampleDirs are where programs for readers are, the first first.
var exampleDirs = []string{"examples/c", "examples/cpp", "examples/python"}

// findExamples looks for calls of functions in the example programs.
func (s *site) findExamples() {
	python := map[string]string{} // C name by Python form
	for _, f := range s.table.Functions {
		if f.Form != nil {
			python[f.Form.Module+"."+f.Form.Name] = f.Name
		}
	}
	call := regexp.MustCompile(`\b(acl(?:\.\w+)*\w*)\(`)
	for _, dir := range exampleDirs {
		files, err := filepath.Glob(filepath.Join(s.root, filepath.FromSlash(dir), "*.[cp]*"))
		if err != nil {
			s.errs = append(s.errs, err)
		}
		for _, name := range files {
			text, err := os.ReadFile(name)
			if err != nil {
				s.errs = append(s.errs, err)
				continue
			}
			file := dir + "/" + filepath.Base(name)
			seen := map[string]bool{}
			for i, line := range strings.Split(string(text), "\n") {
				for _, m := range call.FindAllStringSubmatch(line, -1) {
					function := m[1]
					if c := python[function]; c != "" {
						function = c
					}
					if s.table.Function(function) != nil && !seen[function] {
						seen[function] = true
						s.examples[function] = append(s.examples[function], example{file, i + 1})
					}
				}
			}
		}
	}
}

// exampleViews are the first example of each directory.
func (s *site) exampleViews(p *page, function string) (all []exampleView) {
	used := map[string]bool{}
	for _, e := range s.examples[function] {
		if used[path.Dir(e.file)] {
			continue
		}
		used[path.Dir(e.file)] = true
		text, err := os.ReadFile(filepath.Join(s.root, filepath.FromSlash(e.file)))
		if err != nil {
			s.errs = append(s.errs, err)
			continue
		}
		lines := strings.Split(string(text), "\n")
		part := lines[max(0, e.line-4):min(len(lines), e.line+3)]
		s.pending = append(s.pending, e.file)
		all = append(all, exampleView{e.file, p.Rel("src/" + e.file + ".html#L" + fmt.Sprint(e.line)), e.line,
			template.HTML(codeBlock(languageOf(e.file), "", outdented(part)))}) //nolint:gosec // escaped
	}
	return all
}

// outdented is text without the white space that all its lines begin with.
func outdented(lines []string) string {
	common := ""
	first := true
	for _, line := range lines {
		if strings.TrimSpace(line) == "" {
			continue
		}
		indent := line[:len(line)-len(strings.TrimLeft(line, " \t"))]
		if first {
			common, first = indent, false
		}
		for !strings.HasPrefix(indent, common) {
			common = common[:len(common)-1]
		}
	}
	var b strings.Builder
	for _, line := range lines {
		b.WriteString(strings.TrimPrefix(line, common) + "\n")
	}
	return strings.Trim(b.String(), "\n") + "\n"
}

func languageOf(file string) string {
	switch ext := path.Ext(file); ext {
	case ".c", ".h":
		return "c"
	case ".cpp", ".hpp":
		return "cpp"
	case ".py":
		return "python"
	case ".go", ".yaml", ".json", ".sh":
		return ext[1:]
	}
	if lexer := lexers.Match(path.Base(file)); lexer != nil {
		return strings.ToLower(lexer.Config().Name)
	}
	return "text"
}

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

// source shows a file, each line with a place for links.
func (s *site) source(file, name string) {
	text, err := os.ReadFile(name)
	if err != nil {
		s.errs = append(s.errs, err)
		return
	}
	p := &page{Title: file, Path: "src/" + file + ".html", Source: file, Class: "source"}
	var b bytes.Buffer
	fmt.Fprintf(&b, "<h1>%s</h1>\n", template.HTMLEscapeString(file))
	b.WriteString(`<div class="code"><pre tabindex="0"><code class="chroma">`)
	if bytes.IndexByte(text, 0) >= 0 {
		b.WriteString("(binary)")
	} else {
		coloured := strings.TrimSuffix(coloured(languageOf(file), string(text)), "\n")
		for i, line := range strings.Split(coloured, "\n") {
			fmt.Fprintf(&b, "<span class=\"line\" id=\"L%d\"></span>%s\n", i+1, line)
		}
	}
	b.WriteString("</code></pre></div>\n")
	p.Body = template.HTML(b.String()) //nolint:gosec // escaped above
	s.add(p)
}
