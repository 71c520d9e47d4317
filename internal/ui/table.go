package ui

import (
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

// Wrap breaks text into lines of at most width columns, at blanks.
func Wrap(text string, width int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		switch {
		case line == "":
			line = word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) <= width:
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
