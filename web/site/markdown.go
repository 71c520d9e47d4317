package main

import (
	"bytes"
	"html/template"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// document makes the page of a markdown file.
func (s *site) document(source string) {
	content, err := os.ReadFile(filepath.Join(s.root, filepath.FromSlash(source)))
	if err != nil {
		s.errs = append(s.errs, err)
		return
	}
	p := &page{Path: s.markdown[source], Source: source, Class: "document",
		also: strings.TrimSuffix(path.Base(source), ".md")}
	p.Body = s.convert(p, content)
	if source == homeSource {
		p.Class, p.TOC = "document home", nil
	}
	if p.Title == "" {
		s.errorf("%s: the page has no title", source)
	}
	s.add(p)
}

var converter = goldmark.New(
	goldmark.WithExtensions(extension.Linkify, extension.Strikethrough,
		// The pages' policy forbids styles in attributes.
		extension.NewTable(extension.WithTableCellAlignMethod(extension.TableCellAlignAttribute))),
	goldmark.WithParserOptions(parser.WithAutoHeadingID()),
	goldmark.WithRendererOptions(html.WithUnsafe(), renderer.WithNodeRenderers(util.Prioritized(&blocks{}, 100))),
)

// convert renders markdown. It sets the page's title, contents and sections.
func (s *site) convert(p *page, content []byte) template.HTML {
	context := parser.NewContext(parser.WithIDs(&ids{used: map[string]int{}}))
	doc := converter.Parser().Parse(text.NewReader(content), parser.WithContext(context))
	s.outline(p, doc, content)
	s.rewrite(p, doc, content)
	var b bytes.Buffer
	if err := converter.Renderer().Render(&b, content, doc); err != nil {
		s.errorf("%s: %w", p.Source, err)
	}
	return template.HTML(b.String()) //nolint:gosec // the repository's own pages
}

// ids names headings as code hosts do, so that links with anchors work in both places.
type ids struct{ used map[string]int }

var notInID = regexp.MustCompile(`[^\p{L}\p{N} _-]`)

func (i *ids) Generate(value []byte, _ ast.NodeKind) []byte {
	id := strings.ToLower(strings.TrimSpace(string(value)))
	id = strings.ReplaceAll(notInID.ReplaceAllString(id, ""), " ", "-")
	n := i.used[id]
	i.used[id]++
	if n > 0 {
		id += "-" + string(rune('0'+n%10))
	}
	return []byte(id)
}

func (i *ids) Put(value []byte) { i.used[string(value)]++ }

// longTOC is how long a table of contents may be with headings of the third level.
const longTOC = 50

// outline takes the title, the table of contents and the texts for the search from a page.
func (s *site) outline(p *page, doc ast.Node, content []byte) {
	var current *section
	for n := doc.FirstChild(); n != nil; n = n.NextSibling() {
		h, ok := n.(*ast.Heading)
		if !ok {
			if current != nil {
				current.text += plain(n, content) + " "
			}
			continue
		}
		title := strings.TrimSpace(plain(h, content))
		id, _ := h.AttributeString("id")
		anchor, _ := id.([]byte)
		if h.Level == 1 && p.Title == "" {
			p.Title, title = title, ""
		} else if h.Level <= 3 {
			p.TOC = append(p.TOC, heading{h.Level, string(anchor), title})
		}
		p.sections = append(p.sections, section{title: title, anchor: string(anchor)})
		current = &p.sections[len(p.sections)-1]
	}
	if len(p.TOC) > longTOC {
		p.TOC = slices.DeleteFunc(p.TOC, func(h heading) bool { return h.Level > 2 })
	}
}

// plain is the text of a node, without markup.
func plain(n ast.Node, content []byte) string {
	var b strings.Builder
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		switch n := n.(type) {
		case *ast.Text:
			if entering {
				b.Write(n.Value(content))
			} else if n.SoftLineBreak() || n.HardLineBreak() {
				b.WriteByte(' ')
			}
		case *ast.String:
			if entering {
				b.Write(n.Value)
			}
		case *ast.FencedCodeBlock, *ast.CodeBlock:
			if entering {
				b.Write(lines(n, content))
			}
		default:
			if !entering && n.Type() == ast.TypeBlock || n.Kind().String() == "TableCell" {
				b.WriteByte(' ')
			}
		}
		return ast.WalkContinue, nil
	})
	return b.String()
}

// rewrite makes the links of a page those of the site, and functions and codes that it names links.
func (s *site) rewrite(p *page, doc ast.Node, content []byte) {
	var texts []*ast.Text
	var spans []*ast.CodeSpan
	_ = ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Link:
			n.Destination = []byte(s.target(p, string(n.Destination)))
			if i, ok := n.FirstChild().(*ast.Image); ok {
				i.Destination = []byte(s.target(p, string(i.Destination)))
			}
			return ast.WalkSkipChildren, nil
		case *ast.Image:
			n.Destination = []byte(s.target(p, string(n.Destination)))
		case *ast.AutoLink:
			s.target(p, string(n.URL(content)))
		case *ast.Heading:
			return ast.WalkSkipChildren, nil
		case *ast.CodeSpan:
			spans = append(spans, n)
			return ast.WalkSkipChildren, nil
		case *ast.Text:
			texts = append(texts, n)
		}
		return ast.WalkContinue, nil
	})
	for _, n := range spans {
		if to := s.named(plain(n, content)); to != "" {
			link := mention(p, to)
			n.Parent().ReplaceChild(n.Parent(), n, link)
			link.AppendChild(link, n)
		}
	}
	for _, n := range texts {
		s.linkWords(p, n, content)
	}
}

var apiWord = regexp.MustCompile(`\b(?:acl[A-Za-z0-9]+|[1-5]0\d{4}|145\d{3})\b`)

// linkWords puts links into a text, where it names functions and codes.
func (s *site) linkWords(p *page, n *ast.Text, content []byte) {
	at := n.Segment.Start
	for _, m := range apiWord.FindAllIndex(n.Segment.Value(content), -1) {
		start, end := n.Segment.Start+m[0], n.Segment.Start+m[1]
		to := s.named(string(content[start:end]))
		if to == "" {
			continue
		}
		if at < start {
			n.Parent().InsertBefore(n.Parent(), n, ast.NewTextSegment(text.NewSegment(at, start)))
		}
		link := mention(p, to)
		link.AppendChild(link, ast.NewTextSegment(text.NewSegment(start, end)))
		n.Parent().InsertBefore(n.Parent(), n, link)
		at = end
	}
	n.Segment = n.Segment.WithStart(at)
}

// mention returns a link to a page of the API.
func mention(p *page, to string) *ast.Link {
	link := ast.NewLink()
	link.Destination = []byte(p.Rel(to))
	return link
}

// resolve is the file of the repository that a link of one of its pages names.
func resolve(source, to string) string { return path.Join(path.Dir(source), to) }

// target is where a link of a page leads in the site. What it names besides pages becomes part of the site.
func (s *site) target(p *page, to string) string {
	if strings.Contains(to, "://") || strings.HasPrefix(to, "mailto:") {
		s.external[to] = append(s.external[to], p.Path)
		return to
	}
	name, anchor, hasAnchor := strings.Cut(to, "#")
	if name == "" {
		return to
	}
	if unescaped, err := url.PathUnescape(name); err == nil {
		name = unescaped
	}
	file := resolve(p.Source, name)
	where, ok := s.markdown[file]
	if !ok {
		where = s.sourceTarget(p, file)
	}
	where = p.Rel(where)
	if hasAnchor {
		where += "#" + anchor
	}
	return where
}

// sourceTarget is where the site has a file or directory of the repository that is no page.
func (s *site) sourceTarget(p *page, file string) string {
	info, err := os.Stat(filepath.Join(s.root, filepath.FromSlash(file)))
	if err != nil || strings.HasPrefix(file, "../") {
		s.errorf("%s: the link to %s leads nowhere", p.Source, file)
		return ""
	}
	switch path.Ext(file) {
	case ".png", ".svg", ".jpg":
		data, err := os.ReadFile(filepath.Join(s.root, filepath.FromSlash(file)))
		if err != nil {
			s.errs = append(s.errs, err)
		}
		s.files[file] = data
		return file
	}
	s.pending = append(s.pending, file)
	if info.IsDir() {
		return "src/" + file + "/index.html"
	}
	return "src/" + file + ".html"
}
