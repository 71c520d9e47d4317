package conformance

import "ropeway/internal/core"

// launchRules are the rules of launches, and what breaks them. A form has those that the table gives its function.
var launchRules = map[string]launchRule{
	"symbol-not-loadable": symbolNotLoaded,
	"func-not-live":       noFunction,
	"not-simt":            noSIMT,
	"grid-0":              noGrid,
	"block-0":             noBlock,
	"grid-overflows":      wrapped,
	"not-finalized":       unfinished,
	"mix-without-cfg":     mix310PBare,
	"attrs-null":          noAttributes,
	"timeout-twice":       twoTimeouts,
	"schem-mode":          badMode,
	"prefetch-value":      badPrefetch,
	"dump-value":          badDumping,
	"profiling-value":     badProfile,
	"mix-without-type":    mix310PHalf,
	"not-loaded":          notHere,
	"argument-null":       nullElement,
	"argument-null-950":   elementOf("950"),
	"device-aborted-950":  abortOn("950"),
	"context-failed-950":  stoppedOn("950"),
	"device-aborted":      func(e *env, f launchForm) *core.Error { return abortOn(f.product)(e, f) },
	"context-failed":      func(e *env, f launchForm) *core.Error { return stoppedOn(f.product)(e, f) },
	"model-complete":      change(func(e *env, a *launchArgs) { _, a.stream, _ = whole(e) }),
	"not-loadable":        notLoaded,
	"buffer-too-large":    bigBuffer,
	"no-record-left":      noHostMemory,
	"out-of-memory":       noHostMemory,
}

func init() {
	for _, f := range launchForms {
		behaves(f.function, func(e *env) { launchesPut(e, f) })
		for _, c := range Cases {
			if rule := launchRules[c.Rule]; c.Func == f.function && rule != nil {
				prove(f.function, c.Rule, f.by(rule))
			}
		}
	}
	for _, f := range []launchForm{formV2, formConfig, formHost} {
		prove(f.function, "attribute-unknown", f.by(badAttr))
	}
	for _, f := range []launchForm{formArray, formSIMTArray, formSIMTHost} {
		prove(f.function, "attribute-unknown", f.by(badAttrHere))
	}
	prove("aclrtLaunchKernelWithHostArgs", "placeholder-outside", formHost.by(badPlace))
	prove("aclrtLaunchSIMTKernelWithHostArgs", "placeholder-outside", formSIMTHost.by(badPlace))
	prove("aclrtLaunchKernelWithArgsArray", "args-null", formArray.by(noArgs))
	prove("aclrtLaunchKernelWithArgsArray", "no-parameter-data", formArray.by(noParamData))
	prove("aclrtLaunchSIMTKernelWithArgsArray", "no-parameter-data", formSIMTArray.by(noSIMTData))
	prove("aclrtLaunchSIMTKernelWithHostArgs", "no-parameter-data", formSIMTHost.by(noSIMTData))
	prove("aclrtLaunchSIMTKernelWithHostArgs", "placeHolderArray-null", formSIMTHost.by(noPlaces))
	proveMore("aclrtLaunchSIMTKernelWithHostArgs", "argsSize-0-in-32-bits", formSIMTHost.by(noLowSize))
}

// launchesPut registers that a form of a launch runs put with its arguments, once per block and in the order of the
// stream.
func launchesPut(e *env, f launchForm) {
	o := e.on(machine{product: f.product}).launches()
	a := goodLaunch(o)
	o.ok(f.call(o, a))
	a.blocks, a.grid.X = 3, 3
	o.ok(f.call(o, a))
	if got := o.number(core.Addr(a.target)); got != 4 {
		e.Errorf("the kernel ran %d times, want 4", got)
	}
}
