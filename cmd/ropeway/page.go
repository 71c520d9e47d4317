package main

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"ropeway/internal/ui"
)

// page writes text beside labels, as wide as the terminal is.
type page struct {
	*ui.Output
	width int
}

const (
	leastWidth  = 40
	lineWidth   = 80  // where there is no terminal
	mostWidth   = 100 // longer lines are hard to read
	labelColumn = 12
)

func newPage(o *ui.Output) *page {
	return &page{o, cmp.Or(terminalWidth(o), lineWidth)}
}

// terminalWidth returns how wide text may be on a terminal; 0 elsewhere, where lines are of any length.
func terminalWidth(o *ui.Output) int {
	if o.Width == nil {
		return 0
	}
	return min(max(o.Width(), leastWidth), mostWidth)
}

// head writes a line that begins a part.
func (p *page) head(text string) {
	p.Line("")
	p.Line("%s", p.Bold(text))
}

// item writes a label and, beside it, text. Without text there is nothing.
func (p *page) item(label, text string) {
	p.beside(fmt.Sprintf("%-*s", labelColumn, label+" "), text)
}

// beside writes text after the first cells of a row, and its further lines below it.
func (p *page) beside(cells, text string) {
	for _, line := range ui.Wrap(text, p.width-len(cells)) {
		p.Line("%s", strings.TrimRight(cells+line, " "))
		cells = strings.Repeat(" ", len(cells))
	}
}

// list writes names in columns.
func (p *page) list(names []string) {
	widest := 0
	for _, n := range names {
		widest = max(widest, len(n)+2)
	}
	columns := max(1, (p.width-2)/max(1, widest))
	rows := (len(names) + columns - 1) / columns
	for r := range rows {
		line := "  "
		for i := r; i < len(names); i += rows {
			line += fmt.Sprintf("%-*s", widest, names[i])
		}
		p.Line("%s", strings.TrimRight(line, " "))
	}
}

// duration writes seconds with three digits that count, more or less.
func duration(seconds float64) string {
	switch t := time.Duration(seconds * float64(time.Second)); {
	case t < time.Millisecond:
		return fmt.Sprintf("%.1f us", seconds*1e6)
	case t < time.Second:
		return fmt.Sprintf("%.2f ms", seconds*1e3)
	default:
		return fmt.Sprintf("%.2f s", seconds)
	}
}
