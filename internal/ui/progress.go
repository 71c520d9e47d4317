package ui

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Progress is a bar on the last line while work is under way. It draws nothing where the output is not live. One
// goroutine uses it, and its output.
type Progress struct {
	o           *Output // nil: nothing is drawn
	what        string
	done, total int
	drawn       int // columns that the bar occupies now
}

// Progress starts a bar of total steps. Call Close when the work is over, however it ended.
func (o *Output) Progress(total int) *Progress {
	if !o.Live {
		return &Progress{}
	}
	p := &Progress{o: o, total: max(total, 1)}
	o.bar = p
	return p
}

// Step sets what is being done now, and counts done more steps as finished.
func (p *Progress) Step(what string, done int) {
	if p.o == nil {
		return
	}
	p.what = what
	p.done = min(p.done+done, p.total)
	p.draw()
}

// Close removes the bar.
func (p *Progress) Close() {
	if p.o != nil && p.o.bar == p {
		p.clear()
		p.o.bar = nil
	}
}

// echo is room for the "^C" that a terminal shows after the bar; it is removed with it.
const echo = 2

func (p *Progress) draw() {
	text := p.text(max(1, p.o.width()-1-echo)) // the last column would wrap on some terminals
	p.drawn = utf8.RuneCountInString(text) + echo
	io.WriteString(p.o.W, "\r"+p.o.Dim(text))
}

// text is the line: what is being done, a bar as long as there is room, and how many percent are done.
func (p *Progress) text(width int) string {
	what := fmt.Sprintf("%-36s ", p.what)
	percent := fmt.Sprintf(" %3d%%", 100*p.done/p.total)
	room := width - utf8.RuneCountInString(what) - len(percent) - 2 // the bar has two ends
	if room < 1 {
		runes := []rune(what + percent)
		return string(runes[:min(width, len(runes))])
	}
	filled := room * p.done / p.total
	if p.o.UTF8 {
		return what + " " + strings.Repeat("━", filled) + strings.Repeat("─", room-filled) + " " + percent
	}
	bar := strings.Repeat("=", filled) + strings.Repeat(" ", room-filled)
	if 0 < filled && filled < room {
		bar = bar[:filled-1] + ">" + bar[filled:]
	}
	return what + "[" + bar + "]" + percent
}

func (p *Progress) clear() {
	if p.drawn > 0 {
		blank := max(0, min(p.drawn, p.o.width()-1)) // the terminal may have become narrower
		io.WriteString(p.o.W, "\r"+strings.Repeat(" ", blank)+"\r")
		p.drawn = 0
	}
}
