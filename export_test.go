package ropeway

import (
	"context"
	"io"

	"ropeway/internal/core"
	"ropeway/internal/driver"
)

// WithDriver puts something between the core and the software device.
func WithDriver(wrap func(driver.Driver) driver.Driver) Option {
	return Option{func(o *options) { o.wrap = wrap }}
}

// Importing is importing, for memory that closes as c says.
func Importing(ctx context.Context, c io.Closer, open func() error) error {
	_, err := importing(ctx, func() (io.Closer, error) { return c, open() })
	return err
}

// Live reports what was not closed.
func (r *Runtime) Live() core.Live { return r.rt.Live() }

// Imports is how many keys the runtime remembers as imported.
func (r *Runtime) Imports() int {
	r.imports.mu.Lock()
	defer r.imports.mu.Unlock()
	return len(r.imports.have)
}
