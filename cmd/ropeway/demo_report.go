package main

import (
	"fmt"
	"time"

	"ropeway/internal/ui"
)

// demoReport is what --json writes. GB are 1e9 bytes.
type demoReport struct {
	Product     string        `json:"product"`
	Chip        string        `json:"chip"`
	Driver      string        `json:"driver"`
	Devices     int           `json:"devices"`
	Size        int           `json:"size"`
	Repetitions int           `json:"repetitions"`
	Notes       []string      `json:"notes,omitempty"`
	Copies      []copyResult  `json:"copies"`
	Order       orderResult   `json:"order"`
	Mistake     mistakeResult `json:"mistake"`
	Verified    int64         `json:"verified_bytes"`
	Seconds     float64       `json:"seconds"`
}

type copyResult struct {
	Name        string  `json:"name"`
	Bytes       int     `json:"bytes"`
	Seconds     float64 `json:"seconds,omitempty"`
	GBPerSecond float64 `json:"gb_per_s,omitempty"`
	VsCopy      float64 `json:"vs_copy,omitempty"`
	Verified    bool    `json:"verified"`
	Skipped     string  `json:"skipped,omitempty"`
}

type orderResult struct {
	Bytes             int     `json:"bytes"`
	ProducedSeconds   float64 `json:"produced_seconds"`
	ConsumedSeconds   float64 `json:"consumed_seconds"`
	Verified          bool    `json:"verified"`
	StaleWithoutEvent bool    `json:"stale_without_event"`
}

type mistakeResult struct {
	What     string `json:"what"`
	Code     int    `json:"code"`
	Name     string `json:"name"`
	API      string `json:"api"`
	Argument string `json:"argument"`
	Text     string `json:"text"`
}

// table is operation, bytes, time, GB/s, ratio; whether it was verified follows.
var table = ui.Columns{34, -9, -11, -8, -11}

// begin writes what is going to happen and the head of the table, and starts the bar.
func (d *demo) begin(ops []*operation) {
	r := &d.report
	r.Product, r.Chip, r.Driver, r.Devices = d.product.Name, d.rt.Chip(), d.rt.Driver(), d.rt.DeviceCount()
	r.Size, r.Repetitions = d.size, d.reps
	plural := "s"
	if r.Devices == 1 {
		plural = ""
	}
	d.out.Line("%s (%s), %d %s device%s, %s a copy, medians of %d runs or more",
		r.Product, r.Chip, r.Devices, r.Driver, plural, ui.Bytes(uint64(d.size)), d.reps)
	d.out.Line("%s", d.out.Bold(table.Row("OPERATION", "BYTES", "TIME", "GB/s", "VS COPY()")))
	total := 1
	for _, op := range ops {
		total += d.repetitions(op) + otherSteps
	}
	d.progress = d.out.Progress(total)
}

func (d *demo) writeCopy(r *copyResult) {
	if r.Skipped != "" {
		d.out.Line("%s  %s", ui.Columns{34, -9}.Row(r.Name, "-"), d.out.Dim(r.Skipped))
		return
	}
	d.out.Line("%s  %s", table.Row(r.Name, ui.Bytes(uint64(r.Bytes)), duration(r.Seconds),
		fmt.Sprintf("%.2f", r.GBPerSecond), fmt.Sprintf("%.2fx", r.VsCopy)), d.out.Good("ok"))
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

// lineWidth is how wide text may be; terminals that are narrower wrap it themselves.
const lineWidth = 80

// indent is where text begins beside a word.
const indent = 9

// paragraph writes a word and, beside it, text.
func (d *demo) paragraph(word, text string) {
	for _, line := range ui.Wrap(text, lineWidth-indent) {
		d.out.Line("%s%s", d.label(word), line)
		word = ""
	}
}

// label is the word at the beginning of a line.
func (d *demo) label(word string) string { return d.out.Bold(fmt.Sprintf("%-*s", indent, word)) }

func (d *demo) writeOrder() {
	r := d.report.Order
	text := fmt.Sprintf("stream 2 waits for stream 1's event: written at %s, read from %s on, %s verified.",
		duration(r.ProducedSeconds), duration(r.ConsumedSeconds), ui.Bytes(uint64(r.Bytes)))
	if r.StaleWithoutEvent {
		text += " Without the event it read old bytes."
	}
	d.out.Line("%s", d.out.Dim("VS COPY(): times as fast as Go's copy() of the same bytes on one thread."))
	d.out.Line("")
	d.paragraph("order", text)
}

func (d *demo) writeMistake() {
	r := d.report.Mistake
	d.paragraph("mistake", fmt.Sprintf("%s: refused, %d %s", r.What, r.Code, r.Name))
	d.paragraph("", fmt.Sprintf("%s: %s: %s", r.API, r.Argument, r.Text))
}

// end sums up and says what to do next.
func (d *demo) end(name string) {
	d.paragraph("result", fmt.Sprintf("%s compared, every byte right, in %.1f s.", ui.Bytes(uint64(d.report.Verified)), d.report.Seconds))
	d.out.Line("")
	commands := ui.Columns{len(name) + 24, 0}
	word := "try"
	for _, next := range [][2]string{
		{"info", "what this product has"},
		{"demo --product 310P", "a product with other rules"},
		{"demo --size 1GiB", "larger copies"},
	} {
		d.out.Line("%s%s", d.label(word), commands.Row(name+" "+next[0], next[1]))
		word = ""
	}
}
