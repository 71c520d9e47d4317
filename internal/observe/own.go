package observe

import (
	"reflect"
	"strings"
)

// GoPackage is how the names of our own Go functions begin: the path of the module.
var GoPackage = strings.TrimSuffix(reflect.TypeFor[Tracer]().PkgPath(), "/internal/observe")

// Own reports whether a Go function is part of the product, and not of the program that uses it. Tests are programs.
func Own(function string) bool {
	rest, ok := strings.CutPrefix(function, GoPackage)
	return ok && (strings.HasPrefix(rest, ".") && !strings.HasPrefix(rest, ".Test") ||
		strings.HasPrefix(rest, "/ascend.") || strings.HasPrefix(rest, "/internal/core.") || strings.HasPrefix(rest,
		"/internal/core/") ||
		strings.HasPrefix(rest, "/internal/check.(*"))
}
