package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"ropeway"
	"ropeway/check"
	"ropeway/internal/bench"
	"ropeway/internal/product"
	"ropeway/internal/ui"
)

const mostRaced = 16 << 20 // bytes that one stream hands to another, at most

// demo is what a demo is asked to do, and what it has found.
type demo struct {
	ctx      context.Context
	out      *ui.Output
	log      io.Writer // for warnings
	product  *product.Product
	devices  int
	size     int // bytes of a plain copy
	verified int64
}

func (a *app) demo() *cobra.Command {
	var name, size string
	var quick bool
	d := &demo{log: a.stderr}
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show a race and its finding, then copy in every direction",
		Long: `Show two streams with a race and what the checker finds, the same with an event
and every byte verified, a copy that is refused, then copies in every direction,
each of them compared. The demo uses eleven times --size of memory, and copies
less at a time if there is not enough.`,
		Example: `  ropeway demo --quick
  ropeway demo --product 310P --size 64MiB`,
		Args:              a.noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if quick && !cmd.Flags().Changed("size") {
				size = "16MiB"
			}
			if d.product, err = a.findProduct("demo", name, ""); err != nil {
				return err
			}
			if d.size, err = ui.ParseBytes(size); err == nil && d.size < 4<<10 {
				err = errors.New("use 4KiB or more")
			}
			if err != nil {
				return &usageError{fmt.Errorf("--size: %w", err), "see " + a.name + " demo --help"}
			}
			if d.devices < 1 || d.devices > maxDevices {
				return &usageError{fmt.Errorf("--devices: %d is not 1 to %d", d.devices, maxDevices), "try 2"}
			}
			d.ctx, d.out = cmd.Context(), ui.New(a.stdout, a.getenv)
			if err = d.showRace(); err == nil { // each has devices of its own
				err = d.with(d.showMistake)
			}
			if err == nil {
				err = d.showCopies()
			}
			return err
		},
	}
	cmd.Flags().StringVar(&size, "size", "256MiB", "`bytes` of a copy; 16MiB with --quick")
	cmd.Flags().IntVar(&d.devices, "devices", 2, "how `many` devices there are")
	cmd.Flags().BoolVar(&quick, "quick", false, "copies of 16 MiB")
	productFlag(cmd, &name)
	complete(cmd, "size", "16MiB", "64MiB", "256MiB", "1GiB")
	complete(cmd, "devices")
	return cmd
}

// with calls f with new devices.
func (d *demo) with(f func(*ropeway.Runtime, *ropeway.Device) error, options ...ropeway.Option) error {
	warn := func(line string) { d.out.To(d.log, "%s", line) } // apart from the progress bar
	rt, err := ropeway.Open(append(options, ropeway.WithLogger(warnings(warn)), ropeway.WithDevices(d.devices),
		ropeway.WithProduct(ropeway.Product(d.product.Name), ropeway.EP))...)
	if err != nil {
		return err
	}
	dev, err := rt.Device(0)
	if err == nil {
		err = f(rt, dev)
	}
	return errors.Join(err, rt.Close())
}

// text writes lines below a head, as wide as the terminal.
func (d *demo) text(head string, lines ...string) {
	d.out.Line("%s", d.out.Bold(head))
	for _, line := range lines {
		for _, part := range ui.Fold("  "+line, min(newPage(d.out).width, lineWidth)) {
			d.out.Line("%s", part)
		}
	}
	d.out.Line("")
}

// handedOver is what became of bytes that one stream handed to another.
type handedOver struct {
	produced, consumed time.Duration // since the start
	verified           bool
}

// raced is how many bytes are handed over.
func (d *demo) raced() int { return min(d.size, mostRaced) }

// showRace hands bytes from one stream to another under the checker, without an event between them and with one.
func (d *demo) showRace() error {
	_, found, err := d.checked(func(*ropeway.Stream, *ropeway.Event) error { return nil })
	if err != nil || len(found) == 0 {
		return cmp.Or(err, errors.New("two streams without an event: no finding"))
	}
	outer := regexp.MustCompile(`^ *#[1-9]`) // frames of stacks but the innermost
	d.text("A race: stream 2 does not wait for stream 1. The checker:",
		slices.DeleteFunc(strings.Split(strings.TrimSpace(found[0].String()), "\n"), outer.MatchString)...)
	r, found, err := d.checked((*ropeway.Stream).Wait)
	if err != nil || len(found) > 0 || !r.verified || r.consumed < r.produced {
		return cmp.Or(err, fmt.Errorf("two streams with an event: %+v, %v", r, found))
	}
	d.text("Corrected, with an event between them: no findings.", fmt.Sprintf(
		"Written until %s, read from %s on: %s.", duration(r.produced.Seconds()), duration(r.consumed.Seconds()),
		d.out.Good(ui.Bytes(uint64(d.raced()))+" verified")))
	return nil
}

// checked hands over under the checker and returns what it finds.
func (d *demo) checked(wait func(*ropeway.Stream, *ropeway.Event) error) (r handedOver, found []check.Finding,
	err error) {
	err = d.with(func(_ *ropeway.Runtime, dev *ropeway.Device) (err error) {
		r, err = d.handOver(dev, wait)
		return err
	}, check.With(check.Options{OnFinding: func(f check.Finding) { found = append(found, f) }}))
	return r, found, err
}

// handOver copies bytes to the device on one stream and back on another, which waits for an event or does not.
func (d *demo) handOver(dev *ropeway.Device, wait func(*ropeway.Stream, *ropeway.Event) error) (r handedOver,
	err error) {
	n := d.raced()
	up, err1 := dev.AllocPinned(n)
	down, err2 := dev.AllocPinned(n)
	mem, err3 := dev.Alloc(n)
	first, err4 := dev.NewStream()
	second, err5 := dev.NewStream()
	event, err6 := dev.NewEvent()
	if err := errors.Join(err1, err2, err3, err4, err5, err6); err != nil {
		return r, err
	}
	rand.NewChaCha8([32]byte{}).Read(up.Bytes()) //nolint:errcheck // it never fails
	start := time.Now()
	var produced, consumed atomic.Int64
	for _, step := range []func() error{
		func() error { return first.Call(func() { time.Sleep(20 * time.Millisecond) }) },
		func() error { return first.Copy(mem.All(), up.All()) },
		func() error { return first.Call(func() { produced.Store(int64(time.Since(start))) }) },
		func() error { return first.Record(event) },
		func() error { return wait(second, event) },
		func() error { return second.Call(func() { consumed.Store(int64(time.Since(start))) }) },
		func() error { return second.Copy(down.All(), mem.All()) },
		func() error { return first.Synchronize(d.ctx) },
		func() error { return second.Synchronize(d.ctx) },
	} {
		if err := step(); err != nil {
			return r, err
		}
	}
	r.produced, r.consumed = time.Duration(produced.Load()), time.Duration(consumed.Load())
	r.verified = bytes.Equal(up.Bytes(), down.Bytes())
	return r, errors.Join(event.Close(), second.Close(), first.Close(), mem.Close(), down.Close(), up.Close())
}

// showMistake copies more than fits, which must be refused.
func (d *demo) showMistake(_ *ropeway.Runtime, dev *ropeway.Device) error {
	n := d.raced()
	mem, err := dev.Alloc(n / 2)
	if err != nil {
		return err
	}
	var e *ropeway.Error
	if err = dev.Copy(mem.All(), ropeway.Pageable(make([]byte, n))); !errors.As(err, &e) {
		return fmt.Errorf("copying %d bytes into %d should have been refused, but the result was: %v", n, n/2, err)
	}
	d.text(ui.Bytes(uint64(n))+" into "+ui.Bytes(uint64(n/2))+": refused, with the vendor's code.",
		fmt.Sprintf("%d %s: %s: %s: %s", e.Code, e.Code.Name(), e.API, e.Arg, e.Text))
	return nil
}

// showCopies measures copies, each of them compared, of half the size as often as there is not enough memory.
func (d *demo) showCopies() error {
	asked, notes := d.size, []string(nil)
	rows, err := d.copies()
	few := func() bool { return errors.As(err, new(*ui.Advice)) || errors.Is(err, ropeway.ErrRTMemoryAllocation) }
	for few() && d.size > mostRaced {
		d.size /= 2
		notes = []string{"There is no room for copies of " + ui.Bytes(uint64(asked)) + " here."}
		rows, err = d.copies()
	}
	if err != nil {
		return err
	}
	head := "Copies of " + ui.Bytes(uint64(d.size)) + ", " + d.product.Name
	d.out.Line("%s", d.out.Bold(demoTable.Row(head, "time", "GB/s")))
	for _, row := range rows {
		d.out.Line("%s", row)
	}
	d.text("", append(notes, ui.Bytes(uint64(d.verified))+" compared, every byte right. Speeds are those of this "+
		"machine's memory just now; ropeway bench shows memcpy beside them.")...)
	return nil
}

var demoTable = ui.Columns{34, -10, -8} // name, time, GB/s
var directions = strings.NewReplacer("h2d", "host to device,", "d2h", "device to host,", "d2d", "within a device",
	"p2p", "device 0 to device 1", "pinned, batch", "batch")

// copies measures each kind of copy, and returns a row of the table for each.
func (d *demo) copies() (rows []string, err error) {
	one := []int{1}
	kinds := bench.Axes{Sizes: []int{d.size}, Directions: bench.Directions, Memories: bench.Memories[:2],
		Segments: []int{0}, Streams: one, Devices: one}.Cases()
	kinds = append(kinds, bench.Axes{Sizes: []int{16 << 20}, Directions: bench.Directions[:1],
		Memories: bench.Memories[:1], Segments: []int{4 << 10, 256}, Streams: one, Devices: one}.Cases()...)
	rows, d.verified = make([]string, len(kinds)), int64(d.raced())
	progress := d.out.Progress(len(kinds))
	defer progress.Close()
	err = d.with(func(rt *ropeway.Runtime, _ *ropeway.Device) error {
		return bench.Round(d.ctx, rt, bench.Spec{Cases: kinds}, func(e bench.Event) error {
			m := e.Measured
			if m == nil {
				return d.ctx.Err()
			}
			progress.Step("copies", 1)
			d.verified += m.Verified
			k := kinds[m.Case]
			if name := directions.Replace(k.Series()); m.Skipped != "" {
				rows[m.Case] = "  " + d.out.Dim(name+": "+m.Skipped)
			} else {
				rows[m.Case] = demoTable.Row("  "+name, duration(m.Seconds),
					fmt.Sprintf("%.2f", float64(k.Size)/m.Seconds/1e9)) + "  " + d.out.Good("ok")
			}
			return d.ctx.Err()
		})
	})
	return rows, err
}
