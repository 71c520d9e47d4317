package main

import (
	"bytes"
	"fmt"
	"html"
	"regexp"
	"strings"

	"github.com/alecthomas/chroma/v2"
	chromahtml "github.com/alecthomas/chroma/v2/formatters/html"
	"github.com/alecthomas/chroma/v2/lexers"
	"github.com/alecthomas/chroma/v2/styles"
	"github.com/yuin/goldmark/ast"
	extension "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/util"
)

// blocks renders what the site shows in another way than goldmark does.
type blocks struct{}

func (r *blocks) RegisterFuncs(reg renderer.NodeRendererFuncRegisterer) {
	reg.Register(ast.KindFencedCodeBlock, r.code)
	reg.Register(ast.KindCodeBlock, r.code)
	reg.Register(ast.KindHTMLBlock, r.raw)
	reg.Register(extension.KindTable, r.table)
}

// lines is the text of a block.
func lines(n ast.Node, content []byte) []byte {
	var b bytes.Buffer
	for i := range n.Lines().Len() {
		segment := n.Lines().At(i)
		b.Write(segment.Value(content))
	}
	return b.Bytes()
}

func (r *blocks) code(w util.BufWriter, content []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		return ast.WalkContinue, nil
	}
	language, name := "", ""
	if f, ok := n.(*ast.FencedCodeBlock); ok && f.Info != nil {
		language, name, _ = strings.Cut(string(f.Info.Segment.Value(content)), " ")
	}
	code := string(lines(n, content))
	if table := measurements(code); table != "" && language == "" {
		_, err := w.WriteString(table)
		return ast.WalkSkipChildren, err
	}
	_, err := w.WriteString(codeBlock(language, name, code))
	return ast.WalkSkipChildren, err
}

// raw leaves comments out: they are for tests.
func (r *blocks) raw(w util.BufWriter, content []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	if block := n.(*ast.HTMLBlock); entering && block.HTMLBlockType != ast.HTMLBlockType2 {
		_, err := w.Write(lines(n, content))
		return ast.WalkContinue, err
	}
	return ast.WalkContinue, nil
}

// table puts tables into a part that scrolls. Those whose heads are empty are lists, and show no head.
func (r *blocks) table(w util.BufWriter, _ []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		_, err := w.WriteString("</table></div>\n")
		return ast.WalkContinue, err
	}
	list := true
	for cell := n.FirstChild().FirstChild(); cell != nil; cell = cell.NextSibling() {
		list = list && !cell.HasChildren()
	}
	_, err := w.WriteString(openTable(list))
	return ast.WalkContinue, err
}

func openTable(list bool) string {
	class := "sortable"
	if list {
		class = "list"
	}
	return `<div class="scroll" role="region" tabindex="0" aria-label="Table"><table class="` + class + "\">\n"
}

var columns = regexp.MustCompile(`\s{2,}`)

// measurements makes a table of what a benchmark printed: lines after one that begins with "row". It returns "" for
// other text.
func measurements(code string) string {
	before, rows, found := strings.Cut("\n"+code, "\nrow ")
	if !found {
		return ""
	}
	var b strings.Builder
	for line := range strings.Lines(before) {
		if line = strings.TrimSpace(line); line != "" {
			fmt.Fprintf(&b, "<p class=\"caption\">%s</p>\n", html.EscapeString(line))
		}
	}
	all := strings.Split(strings.TrimSpace("row "+rows), "\n")
	head := columns.Split(strings.TrimSpace(all[0]), -1)
	b.WriteString(openTable(false) + "<thead><tr>")
	for _, cell := range head {
		fmt.Fprintf(&b, "<th>%s</th>", html.EscapeString(cell))
	}
	b.WriteString("</tr></thead>\n<tbody>\n")
	for _, line := range all[1:] {
		if strings.TrimSpace(line) == "" {
			continue
		}
		cells := columns.Split(strings.TrimSpace(line), len(head))
		b.WriteString("<tr>")
		for i := range head {
			cell := ""
			if i < len(cells) {
				cell = cells[i]
			}
			fmt.Fprintf(&b, "<td>%s</td>", html.EscapeString(cell))
		}
		b.WriteString("</tr>\n")
	}
	b.WriteString("</tbody></table></div>\n")
	return b.String()
}

var formatter = chromahtml.New(chromahtml.WithClasses(true), chromahtml.PreventSurroundingPre(true))

// codeBlock is code in colours, with the name of its file if it has one.
func codeBlock(language, name, code string) string {
	var b strings.Builder
	b.WriteString(`<div class="code">`)
	if name != "" {
		fmt.Fprintf(&b, `<div class="file">%s</div>`, html.EscapeString(name))
	}
	fmt.Fprintf(&b, `<pre tabindex="0"><code class="chroma language-%s">`, html.EscapeString(language))
	b.WriteString(coloured(language, code))
	b.WriteString("</code></pre></div>\n")
	return b.String()
}

// coloured is code as HTML, with classes for its parts.
func coloured(language, code string) string {
	lexer := lexers.Get(map[string]string{"sh": "bash", "pycon": "pycon", "": "text"}[language])
	if lexer == nil {
		lexer = lexers.Get(language)
	}
	if lexer == nil || language == "text" {
		return html.EscapeString(code)
	}
	tokens, err := chroma.Coalesce(lexer).Tokenise(nil, code)
	if err != nil {
		return html.EscapeString(code)
	}
	var b strings.Builder
	if err := formatter.Format(&b, styles.Fallback, tokens); err != nil {
		return html.EscapeString(code)
	}
	return b.String()
}

// codeColours is the style of code, light and dark.
func codeColours() ([]byte, error) {
	var b bytes.Buffer
	for _, theme := range []struct{ name, style, other string }{
		{"light", "github", "dark"}, {"dark", "github-dark", "light"},
	} {
		var css bytes.Buffer
		if err := formatter.WriteCSS(&css, styles.Get(theme.style)); err != nil {
			return nil, err
		}
		chosen, system := ":root[data-theme="+theme.name+"] ", ":root:not([data-theme="+theme.other+"]) "
		var rules []string
		for line := range strings.Lines(css.String()) {
			// Only what colours tokens: "/* Comment */ .chroma .c { color: … }"
			if _, rule, ok := strings.Cut(line, "*/ "); ok && strings.HasPrefix(rule, ".chroma .") {
				rules = append(rules, rule)
			}
		}
		fmt.Fprintf(&b, "%s%s", chosen, strings.Join(rules, chosen))
		fmt.Fprintf(&b, "@media (prefers-color-scheme: %s) {\n%s%s}\n", theme.name, system, strings.Join(rules, system))
	}
	return b.Bytes(), nil
}
