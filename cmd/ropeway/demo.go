package main

import (
	"context"
	"errors"
	"fmt"
	"io"
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
				return &usageError{fmt.Errorf("--devices: %d is not 1 to %d", devices, maxDevices), "use 2 to see copies between devices"}
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
		return &failure{err: err, next: "Bytes were copied wrongly: a bug of ropeway, or bad memory. Run it again; if it stays, report it."}
	case errors.Is(err, ropeway.ErrRTMemoryAllocation):
		return &failure{err: err, next: "Free some memory, raise the container's limit, or use a smaller --size."}
	}
	return err
}
