package process

import (
	"encoding/json"
	"strconv"
	"strings"

	"ropeway/internal/abi"
	"ropeway/internal/core"
)

// initConfig is aclInit's configuration: the content of the file, and the results of the checks. The checks have the
// order of spec/functions.yaml, among the callbacks that [Thread.Init] runs.
type initConfig struct {
	api  string
	file map[string]any // numbers are json.Number

	texts     bool          // error texts per process
	limits    []configLimit // limits that the product supports
	device    int32         // default device; -1: none
	eventMode int32         // of captured graphs; -1: not given
}

// configLimit is a size for kernels, as aclrtDeviceSetLimit takes it.
type configLimit struct {
	limit abi.DeviceLimit
	key   string
	value uint64
}

// maxNesting is the deepest nesting of objects, and of arrays.
const maxNesting = 10

// noConfig returns the configuration without a file.
func noConfig(api string) *initConfig { return &initConfig{api: api, device: -1, eventMode: -1} }

// parseConfig reads the text of a configuration file.
func parseConfig(api, text string) (*initConfig, *core.Error) {
	conf := noConfig(api)
	if n := nesting(text); n > maxNesting {
		return nil, core.Fail(api, abi.ErrParseFile, "configPath", "the file nests %d deep; the limit is %d", n,
			maxNesting)
	}
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	var root any
	err := dec.Decode(&root)
	if err == nil && dec.More() {
		return nil, core.Fail(api, abi.ErrParseFile, "configPath",
			"the file goes on after its JSON value ends, at byte %d", dec.InputOffset())
	}
	if err != nil {
		e := core.Fail(api, abi.ErrParseFile, "configPath", "the file is not valid JSON")
		e.Err = err
		return nil, e
	}
	conf.file, _ = root.(map[string]any) // other values have no keys
	return conf, nil
}

// nesting returns the depth of a JSON text, counting objects and arrays separately, as the documents do.
func nesting(text string) int {
	var depth, most [2]int
	quoted := false
	for i := 0; i < len(text); i++ {
		kind := 0
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
			continue
		case c == '"':
			quoted = !quoted
			continue
		case quoted:
			continue
		case c == '{' || c == '[':
			if c == '[' {
				kind = 1
			}
			depth[kind]++
			most[kind] = max(most[kind], depth[kind])
		case c == '}':
			depth[0]--
		case c == ']':
			depth[1]--
		}
	}
	return max(most[0], most[1])
}

// bad returns the error for a key with a wrong value.
func (c *initConfig) bad(code abi.Code, key, format string, args ...any) *core.Error {
	return core.Fail(c.api, code, "configPath", key+" "+format, args...)
}

// section returns the object under a key, nil without the key; false if it is not an object.
func (c *initConfig) section(key string) (map[string]any, bool) {
	v, there := c.file[key]
	if !there {
		return nil, true
	}
	m, ok := v.(map[string]any)
	return m, ok
}

// checkMessages reads err_msg_mode.
func (c *initConfig) checkMessages() *core.Error {
	v, there := c.file["err_msg_mode"]
	if there && v != "0" && v != "1" {
		return c.bad(abi.ErrInvalidParam, "err_msg_mode",
			`is %v; it must be "0" (texts per thread) or "1" (per process)`, v)
	}
	c.texts = v == "1"
	return nil
}

// checkDump only checks that the dump section is an object: dumping is not built.
func (c *initConfig) checkDump() *core.Error {
	if _, ok := c.section("dump"); !ok {
		return c.bad(abi.ErrInvalidDumpConfig, "dump", "is no object")
	}
	return nil
}

// checkRest reads everything after the dump section.
func (c *initConfig) checkRest(t *core.Thread) *core.Error {
	for _, check := range []func(*core.Thread) *core.Error{c.checkStacks, c.checkDevice, c.checkPrintf, c.checkGraphs,
		c.checkProfiler} {
		if err := check(t); err != nil {
			return err
		}
	}
	return nil
}

// checkStacks reads StackSize. Even sizes that the product does not support must be numbers.
func (c *initConfig) checkStacks(t *core.Thread) *core.Error {
	stacks, ok := c.section("StackSize")
	if !ok {
		return c.bad(abi.ErrFailure, "StackSize", "is no object")
	}
	for _, l := range []configLimit{
		{limit: abi.DevLimitSimdStackSize, key: "aicore_stack_size"},
		{limit: abi.DevLimitSimtStackSize, key: "simt_stack_size"},
		{limit: abi.DevLimitSimtDvgWarpStackSize, key: "simt_divergence_stack_size"},
	} {
		if err := c.size(t, stacks, l); err != nil {
			return err
		}
	}
	return nil
}

// size reads one size and keeps it if the product supports it.
func (c *initConfig) size(t *core.Thread, from map[string]any, l configLimit) *core.Error {
	v, there := from[l.key]
	if !there {
		return nil
	}
	n, ok := uint32Of(v)
	if !ok {
		return c.bad(abi.ErrFailure, l.key, "is %v, not a number of bytes", v)
	}
	if l.value = n; knows(t.Runtime, l.limit) {
		c.limits = append(c.limits, l)
	}
	return nil
}

// uint32Of converts v to an unsigned 32-bit number; false if it is not one.
func uint32Of(v any) (uint64, bool) {
	n, _ := v.(json.Number)
	u, err := strconv.ParseUint(n.String(), 10, 32)
	return u, err == nil
}

// checkDevice reads DefaultDevice.
func (c *initConfig) checkDevice(t *core.Thread) *core.Error {
	const key = "default_device"
	section, ok := c.section("defaultDevice")
	if !ok {
		return c.bad(abi.ErrFailure, "defaultDevice", "is no object")
	}
	v, there := section[key]
	if !there {
		return nil
	}
	text, ok := v.(string)
	if !ok || !decimal(text) {
		return c.bad(abi.ErrFailure, key, "is %v, not a decimal number in quotes", v)
	}
	id, _ := strconv.ParseInt(text, 10, 32) // larger numbers become the largest
	if t.Runtime.Device(int32(id)) == nil {
		return c.bad(abi.ErrRTInvalidDeviceid, key, "%s is no usable device; %s", text, t.Runtime.DeviceRange())
	}
	c.device = int32(id)
	return nil
}

// decimal reports whether text is a decimal number without leading zeros.
func decimal(text string) bool {
	return text != "" && (text == "0" || text[0] != '0') && strings.Trim(text, "0123456789") == ""
}

// checkPrintf reads the sizes of the print buffers of kernels.
func (c *initConfig) checkPrintf(t *core.Thread) *core.Error {
	for _, l := range []configLimit{
		{limit: abi.DevLimitSimtPrintfFifoSize, key: "simt_printf_fifo_size"},
		{limit: abi.DevLimitSimdPrintfFifoSizePerCore, key: "simd_printf_fifo_size_per_core"},
	} {
		if err := c.size(t, c.file, l); err != nil {
			return err
		}
	}
	for _, l := range c.limits {
		if err := checkLimit(c.api, "configPath", l.limit, l.value); err != nil {
			err.Text = l.key + ": " + err.Text
			return err
		}
	}
	return nil
}

// checkGraphs reads acl_graph.event_mode.
func (c *initConfig) checkGraphs(t *core.Thread) *core.Error {
	const key = "event_mode"
	graph, ok := c.section("acl_graph")
	if !ok {
		return c.bad(abi.ErrInvalidParam, "acl_graph", "is no object")
	}
	v, there := graph[key]
	if !there {
		return nil
	}
	n, ok := uint32Of(v)
	if !ok || n > 1 {
		return c.bad(abi.ErrInvalidParam, key, "is %v; it must be 0 or 1", v)
	}
	if !t.Runtime.Product.Modern {
		return c.bad(abi.ErrRTFeatureNotSupport, key, "cannot be chosen on the %s", t.Runtime.Product.Name)
	}
	set := false
	core.Locked(&processOf(t.Runtime).init.mu, func() { set = processOf(t.Runtime).init.graphs })
	if set {
		return c.bad(abi.ErrRTParamInvalid, key,
			"was set by an earlier aclInit of this process and cannot be set again")
	}
	c.eventMode = int32(n)
	return nil
}

// checkProfiler only checks that the profiler section is an object: profiling by configuration is not built.
func (c *initConfig) checkProfiler(*core.Thread) *core.Error {
	if _, ok := c.section("profiler"); !ok {
		return c.bad(abi.ErrInvalidParam, "profiler", "is no object")
	}
	return nil
}

// configure applies a checked configuration.
func configure(rt *core.Runtime, c *initConfig) {
	rt.SharedTexts.Store(c.texts)
	rt.DefaultDevice.Store(c.device + 1)
	for _, l := range c.limits {
		storeLimit(rt, l.limit, l.value)
	}
	if c.eventMode >= 0 {
		processOf(rt).eventMode.Store(c.eventMode)
	}
}
