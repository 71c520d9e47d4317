package ropeway

import (
	"ropeway/internal/core"
	"ropeway/internal/driver"
)

// WithDriver puts something between the core and the software device.
func WithDriver(wrap func(driver.Driver) driver.Driver) Option {
	return func(o *options) { o.wrap = wrap }
}

// Live tells what was not closed.
func (r *Runtime) Live() core.Live { return r.rt.Live() }
