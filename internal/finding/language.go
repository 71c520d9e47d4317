package finding

import (
	"regexp"
	"sync"
)

// Language is what a program is written in, as far as the names of functions go.
type Language uint8

const (
	C Language = iota
	Python
	Go
)

// function is how a C function is written in a text.
var function = regexp.MustCompile(`\bacl[a-z]*[A-Z]\w*`)

// Name is what a program calls a C function; one that its language does not have keeps its name.
func (l Language) Name(c string) string {
	name := ""
	switch l {
	case Python:
		name = pythonNames[c]
	case Go:
		name = goNames[c]
	}
	if name == "" {
		return c
	}
	return name
}

// byPython are the C functions by their Python forms.
var byPython = sync.OnceValue(func() map[string]string {
	all := map[string]string{}
	for c, name := range pythonNames {
		all[name] = c
	}
	return all
})

// CName is the C function that a Python form calls; what is none stays as it is.
func CName(python string) string {
	if c := byPython()[python]; c != "" {
		return c
	}
	return python
}

// Text is a text in which functions have their C names, for a program in the language.
func (l Language) Text(text string) string {
	if l == C {
		return text
	}
	return function.ReplaceAllStringFunc(text, l.Name)
}

// AdviceIn is what to do about a finding of the rule, in a program of the language.
func (r *Rule) AdviceIn(l Language) string {
	if own := goAdvice[r.Name]; l == Go && own != "" {
		return own
	}
	return l.Text(r.Advice)
}

// goAdvice is what to do in a Go program, by rule, where the functions have no counterparts.
var goAdvice = map[string]string{
	"leak": "Close the runtime when the program is done with it, with defer after ropeway.Open: " +
		"Runtime.Close frees what is left.",
	"misaligned":         "Align both addresses to 64 bytes; the documents of AscendCL ask for it.",
	"host-to-host-async": "Use copy or Device.Copy; products differ in what they make of it.",
	"peer-access":        "Call Device.EnablePeer on the device that does the work.",
	"wrong-context":      "Use a stream with the device that it was made on, and before that device is closed.",
	"fork-after-init":    "Start the child with os/exec before the runtime is opened.",
}

// goNames are what package ropeway calls the functions that findings name. What it does without is not here.
var goNames = map[string]string{
	"aclFinalize":                  "Runtime.Close",
	"aclrtSetDevice":               "Runtime.Device",
	"aclrtResetDevice":             "Device.Close",
	"aclrtSynchronizeDevice":       "Device.Synchronize",
	"aclrtMalloc":                  "Device.Alloc",
	"aclrtMallocHost":              "Device.AllocPinned",
	"aclrtMemAllocManaged":         "Device.AllocManaged",
	"aclrtHostRegister":            "Device.Register",
	"aclrtHostRegisterV2":          "Device.Register",
	"aclrtFree":                    "Buffer.Close",
	"aclrtFreeHost":                "Buffer.Close",
	"aclrtHostUnregister":          "Buffer.Close",
	"aclrtMemcpy":                  "Device.Copy",
	"aclrtMemcpyAsync":             "Stream.Copy",
	"aclrtMemcpy2dAsync":           "Stream.Copy2D",
	"aclrtMemcpyBatch":             "Device.CopyBatch",
	"aclrtMemcpyBatchAsync":        "Stream.CopyBatch",
	"aclrtMemcpyAsyncWithDesc":     "Stream.CopyDescriptor",
	"aclrtSetMemcpyDesc":           "Descriptor.Set",
	"aclrtMemset":                  "Device.Fill",
	"aclrtMemsetAsync":             "Stream.Fill",
	"aclrtCreateStream":            "Device.NewStream",
	"aclrtDestroyStream":           "Stream.Close",
	"aclrtSynchronizeStream":       "Stream.Synchronize",
	"aclrtStreamWaitEvent":         "Stream.Wait",
	"aclrtRecordEvent":             "Stream.Record",
	"aclrtResetEvent":              "Stream.Reset",
	"aclrtSynchronizeEvent":        "Event.Wait",
	"aclrtDestroyEvent":            "Event.Close",
	"aclrtDestroyNotify":           "Notify.Close",
	"aclrtMemPoolMallocAsync":      "Pool.Alloc",
	"aclrtMemPoolFreeAsync":        "Buffer.CloseOn",
	"aclrtMemPoolDestroy":          "Pool.Close",
	"aclrtMallocPhysical":          "Device.AllocPhysical",
	"aclrtFreePhysical":            "Physical.Close",
	"aclrtReserveMemAddress":       "Device.Reserve",
	"aclrtReleaseMemAddress":       "Reservation.Close",
	"aclrtDeviceEnablePeerAccess":  "Device.EnablePeer",
	"aclrtDeviceDisablePeerAccess": "Device.DisablePeer",
}

// GoNames are the names of package ropeway that findings may use, for a test that they exist.
func GoNames() (names []string) {
	for _, name := range goNames {
		names = append(names, name)
	}
	return names
}
