package ui

import (
	"fmt"
	"io"
	"strings"

	"github.com/cheggaaa/pb/v3"
)

// Progress is a bar on the last line while work is under way. It draws nothing where the output is not live. One
// goroutine uses it, and its output.
type Progress struct {
	o     *Output
	bar   *pb.ProgressBar
	drawn int // columns that the bar occupies now
}

// Progress starts a bar of total steps. Call Close when the work is over, however it ended.
func (o *Output) Progress(total int) *Progress {
	if !o.Live {
		return &Progress{}
	}
	ends := `"[" "=" ">" " " "]"`
	if o.UTF8 {
		ends = `" " "━" "━" "─" " "`
	}
	text := `{{string . "what"}} {{bar . ` + ends + `}} {{percent . "%3.0f%%"}}`
	p := &Progress{o: o, bar: pb.ProgressBarTemplate(text).New(total)}
	p.bar.Set(pb.Static, true).Set(pb.Terminal, false).SetWriter(io.Discard)
	o.bar = p
	return p
}

// Step says what is done now, and that done more steps are over.
func (p *Progress) Step(what string, done int) {
	if p.bar == nil {
		return
	}
	p.bar.Set("what", fmt.Sprintf("%-36s", what)).Add(done)
	p.draw()
}

// Close takes the bar away.
func (p *Progress) Close() {
	if p.bar != nil && p.o.bar == p {
		p.clear()
		p.o.bar = nil
	}
}

// echo is room for the "^C" that a terminal shows behind the bar; it goes with it.
const echo = 2

func (p *Progress) draw() {
	width := max(1, p.o.width()-1-echo) // the last column would wrap on some terminals
	text := p.bar.SetWidth(width).String()
	p.drawn = pb.CellCount(text) + echo
	io.WriteString(p.o.W, "\r"+p.o.Dim(text))
}

func (p *Progress) clear() {
	if p.drawn > 0 {
		blank := max(0, min(p.drawn, p.o.width()-1)) // the terminal may have become narrower
		io.WriteString(p.o.W, "\r"+strings.Repeat(" ", blank)+"\r")
		p.drawn = 0
	}
}
