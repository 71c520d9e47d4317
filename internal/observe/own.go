package observe

import "strings"

// goPackage is how the names of our own Go functions begin.
const goPackage = "ropeway"

// Own tells whether a Go function is part of the product, and not of the program that uses it. Tests are programs.
func Own(function string) bool {
	rest, ok := strings.CutPrefix(function, goPackage)
	return ok && (strings.HasPrefix(rest, ".") && !strings.HasPrefix(rest, ".Test") ||
		strings.HasPrefix(rest, "/internal/core.") || strings.HasPrefix(rest, "/internal/check.(*"))
}
