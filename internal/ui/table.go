package ui

import (
	"regexp"
	"strings"
	"unicode/utf8"
)

// Columns are the widths of a table's columns: positive ones begin at the left, negative ones end at the right. Rows
// can be written one by one, because the widths are fixed.
type Columns []int

// Row is a line of the table, without blanks at its end. Cells that are too long push the rest; cells after the last
// column follow as they are.
func (c Columns) Row(cells ...string) string {
	var b strings.Builder
	for i, cell := range cells {
		if i >= len(c) {
			b.WriteString("  " + cell)
			continue
		}
		pad := strings.Repeat(" ", max(0, abs(c[i])-utf8.RuneCountInString(cell)))
		if c[i] < 0 {
			b.WriteString(pad + cell)
		} else {
			b.WriteString(cell + pad)
		}
	}
	return strings.TrimRight(b.String(), " ")
}

func abs(n int) int { return max(n, -n) }

// escape matches what colours text and takes no room.
var escape = regexp.MustCompile("\x1b\\[[0-9;]*m")

// columns is the room that text takes.
func columns(text string) int { return utf8.RuneCountInString(escape.ReplaceAllString(text, "")) }

// Fold returns text as lines of at most width columns; 0 is any width. Lines after the first are indented by two more.
func Fold(text string, width int) []string {
	if width <= 0 || columns(text) <= width {
		return []string{text}
	}
	start := text[:len(text)-len(strings.TrimLeft(text, " "))]
	lines := Wrap(text, width-len(start)-2)
	lines[0] = start + lines[0]
	for i := range lines[1:] {
		lines[i+1] = start + "  " + lines[i+1]
	}
	return lines
}

// Wrap breaks text into lines of at most width columns, at blanks.
func Wrap(text string, width int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		switch {
		case line == "":
			line = word
		case columns(line)+1+columns(word) <= width:
			line += " " + word
		default:
			lines = append(lines, line)
			line = word
		}
	}
	if line != "" {
		lines = append(lines, line)
	}
	return lines
}
