package observe

import (
	"reflect"
	"strings"
)

// GoPackage is the path of the module: the prefix of the names of its Go functions.
var GoPackage = strings.TrimSuffix(reflect.TypeFor[Tracer]().PkgPath(), "/internal/observe")

// Own reports whether a Go function is part of this module and not of the program that uses it. Tests count as
// programs.
func Own(function string) bool {
	rest, ok := strings.CutPrefix(function, GoPackage)
	return ok && (strings.HasPrefix(rest, ".") && !strings.HasPrefix(rest, ".Test") ||
		strings.HasPrefix(rest, "/ascend.") || strings.HasPrefix(rest, "/internal/core.") || strings.HasPrefix(rest,
		"/internal/core/") ||
		strings.HasPrefix(rest, "/internal/check.(*"))
}
