package main

import (
	"bytes"
	"fmt"
	"html"
	"strings"

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
	name := ""
	if f, ok := n.(*ast.FencedCodeBlock); ok && f.Info != nil {
		_, name, _ = strings.Cut(string(f.Info.Segment.Value(content)), " ")
	}
	_, err := w.WriteString(codeBlock(name, string(lines(n, content))))
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
	class := "sortable"
	if list {
		class = "list"
	}
	_, err := fmt.Fprintf(w, `<div class="scroll" role="region" tabindex="0" aria-label="Table"><table class="%s">`+"\n",
		class)
	return ast.WalkContinue, err
}

// codeBlock is code, with the name of its file if it has one.
func codeBlock(name, code string) string {
	var b strings.Builder
	b.WriteString(`<div class="code">`)
	if name != "" {
		fmt.Fprintf(&b, `<div class="file">%s</div>`, html.EscapeString(name))
	}
	fmt.Fprintf(&b, "<pre tabindex=\"0\"><code>%s</code></pre></div>\n", html.EscapeString(code))
	return b.String()
}
