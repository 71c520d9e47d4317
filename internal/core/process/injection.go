package process

import (
	"ropeway/internal/core"
	"ropeway/internal/product"
)

// ApiInjectionSetFunc is aclrtApiInjectionSetFunc. It checks the call; libascendcl.so keeps the hooks, so that a tool
// can set them before the core is loaded (capi/shim/hooks.c).
func ApiInjectionSetFunc(t *core.Thread, name *byte, f core.Addr) *core.Error {
	return checkApiInjectionSetFunc(t, name, f)
}

// ApiInjectionGetFunc is aclrtApiInjectionGetFunc, like ApiInjectionSetFunc.
func ApiInjectionGetFunc(t *core.Thread, name *byte, _, _ *core.Addr) *core.Error {
	return checkApiInjectionGetFunc(t, name, nil, nil)
}

// hookable refuses the name of a function that cannot be hooked.
func hookable(_ *core.Thread, api string, name *byte) *core.Error {
	text := core.CString(name)
	if product.Hookable(text) {
		return nil
	}
	return core.Invalid(api, "name", "is not a function that can be hooked, whose name begins with aclrt or aclmdlRI; "+
		"it is %.100q", text)
}
