package main

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"ropeway/internal/explain"
)

//go:embed assets
var assets embed.FS

// page is one page of the site.
type page struct {
	Title  string
	Path   string // of the site, with slashes: "docs/c.html"
	Source string // of the repository: "docs/c.md"; "" for one that comes from the table
	Class  string // of the body
	Body   template.HTML
	TOC    []heading
	Nav    []navGroup
	Site   *site

	also     string    // another name, for the search
	sections []section // for the search
}

// Rel is how this page names a file of the site.
func (p *page) Rel(to string) string { return relative(p.Path, to) }

// Current says how a page of the list stands to this one: it is "page", or the list that this one is in ("true"), or
// "".
func (p *page) Current(listed string) string {
	switch {
	case listed == p.Path:
		return "page"
	case path.Base(listed) == "index.html" && path.Dir(listed) != "." && path.Dir(listed) == path.Dir(p.Path):
		return "true"
	}
	return ""
}

// heading is an entry of a page's table of contents.
type heading struct {
	Level    int
	ID, Text string
}

// site is what is being built.
type site struct {
	root     string
	files    map[string][]byte // by path in the site
	count    int               // of pages
	pages    map[string]*page  // by path in the site
	markdown map[string]string // path in the site, by path in the repository
	pending  []string          // files and directories of the repository that were linked and have no page yet
	external map[string][]string
	names    map[string]string // path in the site, by what of the API it is about
	errs     []error
	template *template.Template
	Nav      []navGroup
	Version  string

	reference []entry // of the API, in the order of the table
}

// documents are the pages of the repository, in the order in which the search prefers them.
var documents = []string{
	homeSource, "README.md", "docs/*.md", "docs/record/*.md", "CHANGELOG.md", "CONTRIBUTING.md", "RATIONALE.md",
	"SECURITY.md", "SUPPORT.md", "spec/*.md", "python/README.md", "web/*/README.md",
}

// build makes all files of the site.
func build(root string) (*site, error) {
	s := &site{
		root: root, files: map[string][]byte{}, pages: map[string]*page{}, markdown: map[string]string{},
		external: map[string][]string{}, names: map[string]string{},
	}
	if version, err := os.ReadFile(filepath.Join(root, "VERSION")); err == nil {
		s.Version = strings.TrimSpace(string(version))
	}
	var err error
	if s.template, err = template.ParseFS(assets, "assets/*.tmpl"); err != nil {
		return nil, err
	}
	book, err := explain.Open()
	if err != nil {
		return nil, err
	}
	if err := s.entries(book); err != nil {
		return nil, err
	}
	var sources []string
	for _, pattern := range documents {
		found, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(pattern)))
		if err != nil {
			return nil, err
		}
		for _, name := range found {
			rel, err := filepath.Rel(root, name)
			if err != nil {
				return nil, err
			}
			sources = append(sources, filepath.ToSlash(rel))
		}
	}
	for _, source := range sources {
		s.markdown[source] = htmlPath(source)
	}
	for _, source := range sources {
		s.document(source)
	}
	s.navigation()
	s.referencePages()
	s.goPackagePages()
	s.sources()
	s.searchIndex()
	for _, p := range s.pages {
		s.render(p)
	}
	s.static()
	s.links()
	return s, errors.Join(s.errs...)
}

// homeSource is the site's first page.
const homeSource = "web/site/home.md"

// htmlPath is where the page of a markdown file is.
func htmlPath(source string) string {
	if source == homeSource {
		return "index.html"
	}
	return strings.TrimSuffix(source, ".md") + ".html"
}

// relative is how a file of the site names another one.
func relative(from, to string) string {
	up, rest := "", path.Dir(from)
	for rest != "." && !strings.HasPrefix(to, rest+"/") {
		up += "../"
		rest = path.Dir(rest)
	}
	if rest != "." {
		to = strings.TrimPrefix(to, rest+"/")
	}
	return up + to
}

func (s *site) errorf(format string, args ...any) {
	s.errs = append(s.errs, fmt.Errorf(format, args...))
}

func (s *site) add(p *page) {
	if s.pages[p.Path] != nil {
		s.errorf("%s: two pages have this name", p.Path)
	}
	p.Site = s
	s.pages[p.Path] = p
}

func (s *site) render(p *page) {
	p.Nav = s.Nav
	var b bytes.Buffer
	if err := s.template.ExecuteTemplate(&b, "page.tmpl", p); err != nil {
		s.errorf("%s: %w", p.Path, err)
		return
	}
	s.files[p.Path] = b.Bytes()
	s.count++
}

// static adds the files that all pages use.
func (s *site) static() {
	css, err := assets.ReadFile("assets/site.css")
	if err != nil {
		s.errs = append(s.errs, err)
		return
	}
	s.files["site.css"] = css
	for _, name := range []string{"site.js", "theme.js"} {
		text, err := assets.ReadFile("assets/" + name)
		if err != nil {
			s.errs = append(s.errs, err)
		}
		s.files[name] = text
	}
	for _, name := range []string{"LICENSE", "NOTICE"} {
		if text, err := os.ReadFile(filepath.Join(s.root, name)); err == nil {
			s.files[name+".txt"] = text
		}
	}
}

// links lists the links that leave the site.
func (s *site) links() {
	var b strings.Builder
	for _, url := range slices.Sorted(maps.Keys(s.external)) {
		from := s.external[url]
		slices.Sort(from)
		fmt.Fprintf(&b, "%s\t%s\n", url, strings.Join(slices.Compact(from), " "))
	}
	s.files["links.txt"] = []byte(b.String())
}
