package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"ropeway"
	"ropeway/internal/product"
	"ropeway/internal/ui"
)

const (
	normalSize = 256 << 20
	quickSize  = 16 << 20
	leastSize  = 4 << 10
	maxDevices = 64
)

// demoConfig is what the demo is asked to do.
type demoConfig struct {
	product *product.Product
	devices int
	size    int // bytes of a plain copy
	reps    int // timed runs of an operation, at least

	memory uint64                    // of each device; 0: the default
	read   func(op string, b []byte) // sees what was copied before it is compared; may be nil
}

func (a *app) demo() *cobra.Command {
	var name, size string
	var devices int
	var quick, asJSON bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Copy in every direction, verify every byte, measure",
		Long: `Run the main jobs of the runtime for real on the software device: copies in
every direction with pageable and pinned memory, scattered batches, 2-D and
descriptor copies, two streams ordered by an event, and a mistake with the error
it gets.

Every byte is compared. Times are medians after a warm-up; VS COPY() is how many
times as fast that is as Go's copy() of the same bytes on one thread.

The demo uses six times --size of memory, and less if there is not enough.`,
		Example: `  ropeway demo
  ropeway demo --quick
  ropeway demo --product 310P --size 64MiB
  ropeway demo --json > demo.json`,
		Args:              a.noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c := demoConfig{devices: devices, size: normalSize, reps: 5}
			if quick {
				c.size, c.reps = quickSize, 3
			}
			var err error
			if c.product, err = a.findProduct("demo", name, ""); err != nil {
				return err
			}
			if cmd.Flags().Changed("size") {
				if c.size, err = ui.ParseBytes(size); err != nil {
					return &usageError{fmt.Errorf("--size: %w", err), "see " + a.name + " demo --help"}
				}
			}
			if c.size < leastSize {
				return &usageError{fmt.Errorf("--size: %s is too little", ui.Bytes(uint64(c.size))), "use 4KiB or more"}
			}
			if devices < 1 || devices > maxDevices {
				return &usageError{fmt.Errorf("--devices: %d is not 1 to %d", devices, maxDevices),
					"use 2 to see copies between devices"}
			}
			return a.runDemo(cmd.Context(), c, asJSON)
		},
	}
	cmd.Flags().StringVar(&size, "size", "256MiB", "`bytes` of a copy; 16MiB with --quick")
	cmd.Flags().IntVar(&devices, "devices", 2, "how `many` devices there are")
	cmd.Flags().BoolVar(&quick, "quick", false, "smaller copies, fewer repetitions")
	cmd.Flags().BoolVar(&asJSON, "json", false, "write JSON, and nothing before it")
	productFlag(cmd, &name)
	complete(cmd, "size", "16MiB", "64MiB", "256MiB", "1GiB")
	complete(cmd, "devices")
	return cmd
}

// runDemo does it all and reports as it goes, or at the end as JSON.
func (a *app) runDemo(ctx context.Context, c demoConfig, asJSON bool) error {
	start := time.Now()
	out := ui.New(a.stdout, a.getenv)
	if asJSON {
		out = &ui.Output{W: io.Discard}
	}
	d := &demo{ctx: ctx, demoConfig: c, out: out, log: a.stderr}
	if err := d.run(); err != nil {
		return d.explain(errors.Join(err, d.close()))
	}
	if err := d.close(); err != nil {
		return err
	}
	d.report.Seconds = time.Since(start).Seconds()
	if asJSON {
		return a.writeJSON(d.report)
	}
	d.end(a.name)
	return nil
}

// run does everything but close.
func (d *demo) run() error {
	if err := d.open(); err != nil {
		return err
	}
	ops := d.operations()
	d.begin(ops)
	defer d.progress.Close()
	for _, op := range ops {
		r, err := d.perform(op)
		if err != nil {
			return fmt.Errorf("%s: %w", op.name, err)
		}
		d.report.Copies = append(d.report.Copies, *r)
		d.writeCopy(r)
	}
	if err := d.showOrder(); err != nil {
		return fmt.Errorf("two streams: %w", err)
	}
	return d.showMistake()
}

// explain adds what to do about an error.
func (d *demo) explain(err error) error {
	var m *mismatch
	switch {
	case d.ctx.Err() != nil:
		return err
	case errors.As(err, &m):
		return &failure{err: err, next: "Bytes were copied wrongly: a bug of ropeway, or bad memory. Run it again; " +
			"if it stays, report it."}
	case errors.Is(err, ropeway.ErrRTMemoryAllocation):
		return &failure{err: err, next: "Free some memory, raise the container's limit, or use a smaller --size."}
	}
	return err
}

// slow is how long the producer takes before it begins: a consumer that does not wait is long over.
const slow = 20 * time.Millisecond

// orderBytes is what one stream hands to the other.
const orderBytes = 16 << 20

// handover is one product handed from a stream to another.
type handover struct {
	produced, consumed time.Duration // since the start
	stale              bool          // the consumer did not see the product
}

// showOrder lets one stream produce what another consumes, with an event between them and without.
func (d *demo) showOrder() error {
	d.progress.Step("two streams and an event", 0)
	second, err := d.dev0.NewStream()
	if err != nil {
		return err
	}
	event, err := d.dev0.NewEvent()
	if err != nil {
		return errors.Join(err, second.Close())
	}
	n := min(d.size, orderBytes)
	with, err := d.handOver(n, second, event)
	var without handover
	if err == nil {
		without, err = d.handOver(n, second, nil)
	}
	if d.ctx.Err() != nil {
		return d.ctx.Err() // the streams are still busy
	}
	if err = errors.Join(err, event.Close(), second.Close()); err != nil {
		return err
	}
	if with.consumed < with.produced {
		return fmt.Errorf("stream 2 began at %v, before the event that it waits for, at %v",
			with.consumed, with.produced)
	}
	d.report.Order = orderResult{
		Bytes: n, ProducedSeconds: with.produced.Seconds(), ConsumedSeconds: with.consumed.Seconds(),
		Verified: !with.stale, StaleWithoutEvent: without.stale,
	}
	d.progress.Step("two streams and an event", 1)
	d.writeOrder()
	return nil
}

// handOver copies n bytes into a slowly on the stream, and from a to b on the second. With an event the bytes must be
// there; without one they need not, and stale says so.
func (d *demo) handOver(n int, second *ropeway.Stream, event *ropeway.Event) (h handover, err error) {
	if err := d.fill(d.pinned, n); err != nil {
		return h, err
	}
	for _, p := range []place{d.a, d.b} {
		if err := d.wipe(p, n); err != nil {
			return h, err
		}
	}
	var produced, consumed atomic.Int64
	start := time.Now()
	mark := func(t *atomic.Int64) func() { return func() { t.Store(int64(time.Since(start))) } }
	steps := []func() error{
		func() error { return d.stream.Call(func() { time.Sleep(slow) }) },
		func() error { return d.stream.Copy(d.a.at(n), d.pinned.at(n)) },
		func() error { return d.stream.Call(mark(&produced)) },
	}
	if event != nil {
		steps = append(steps,
			func() error { return d.stream.Record(event) },
			func() error { return second.Wait(event) })
	}
	steps = append(steps,
		func() error { return second.Call(mark(&consumed)) },
		func() error { return second.Copy(d.b.at(n), d.a.at(n)) },
		func() error { return second.Synchronize(d.ctx) },
		func() error { return d.stream.Synchronize(d.ctx) })
	for _, step := range steps {
		if err := step(); err != nil {
			return h, err
		}
	}
	h.produced, h.consumed = time.Duration(produced.Load()), time.Duration(consumed.Load())
	op := &operation{name: "two streams", dst: d.b, dstLen: n, segs: []segment{{0, 0, n}}}
	err = d.compare(op)
	var m *mismatch
	if event == nil && errors.As(err, &m) {
		h.stale = true
		err = nil
	}
	return h, err
}

// showMistake copies more than fits, which must be refused.
func (d *demo) showMistake() error {
	n := d.size
	err := d.dev0.Copy(d.a.at(n/2), d.pinned.at(n))
	var e *ropeway.Error
	if !errors.As(err, &e) {
		return fmt.Errorf("copying %d bytes into %d should have been refused, but the result was: %v", n, n/2, err)
	}
	d.report.Mistake = mistakeResult{
		What: fmt.Sprintf("%s into %s", ui.Bytes(uint64(n)), ui.Bytes(uint64(n/2))),
		Code: int(e.Code), Name: e.Code.Name(), API: e.API, Argument: e.Arg, Text: e.Text,
	}
	d.writeMistake()
	return nil
}

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
	d.paragraph("result", fmt.Sprintf("%s compared, every byte right, in %.1f s.", ui.Bytes(uint64(d.report.Verified)),
		d.report.Seconds))
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
