package ropeway

import (
	"ropeway/internal/core"
	"ropeway/internal/driver"
)

// WithDriver puts something between the core and the software device.
func WithDriver(wrap func(driver.Driver) driver.Driver) Option {
	return Option{func(o *options) { o.wrap = wrap }}
}

// Live tells what was not closed.
func (r *Runtime) Live() core.Live { return r.rt.Live() }

// Imports is how many keys the runtime remembers as imported.
func (r *Runtime) Imports() int {
	r.imports.mu.Lock()
	defer r.imports.mu.Unlock()
	return len(r.imports.have)
}
