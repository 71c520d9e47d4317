package finding

import (
	"regexp"
	"sync"

	"ropeway/internal/abi"
)

// Language is the language of a program, which decides how functions are named.
type Language uint8

const (
	C Language = iota
	Python
	Go
)

// function matches a C function in a text.
var function = regexp.MustCompile(`\bacl[a-z]*[A-Z]\w*`)

// Name returns the language's name of a C function, or the C name if there is none.
func (l Language) Name(c string) string {
	name := ""
	switch l {
	case Python:
		name = pythonNames[c]
	case Go:
		name = abi.GoName(c)
	}
	if name == "" {
		return c
	}
	return name
}

// byPython has the C functions by their Python names.
var byPython = sync.OnceValue(func() map[string]string {
	all := map[string]string{}
	for c, name := range pythonNames {
		all[name] = c
	}
	return all
})

// CName returns the C function that a Python name calls; other names are returned unchanged.
func CName(python string) string {
	if c := byPython()[python]; c != "" {
		return c
	}
	return python
}

// Text returns a text with C names as a text for a program in the language.
func (l Language) Text(text string) string {
	if l == C {
		return text
	}
	return function.ReplaceAllStringFunc(text, l.Name)
}

// AdviceIn returns the advice of the rule for a program in the language.
func (r *Rule) AdviceIn(l Language) string {
	if own := goAdvice[r.Name]; l == Go && own != "" {
		return own
	}
	return l.Text(r.Advice)
}

// goAdvice is the advice for Go programs, by rule, if the C functions in the advice have no Go counterparts.
var goAdvice = map[string]string{
	"leak": "Close the runtime when the program is done with it, with defer after ropeway.Open: " +
		"Runtime.Close frees what is left.",
	"misaligned":         "Align both addresses to 64 bytes; the documents of AscendCL ask for it.",
	"host-to-host-async": "Use copy or Device.Copy; products differ in what they make of it.",
	"peer-access":        "Call Device.EnablePeer on the device that does the work.",
	"wrong-context":      "Use a stream with the device that it was made on, and before that device is closed.",
	"fork-after-init":    "Start the child with os/exec before the runtime is opened.",
}
