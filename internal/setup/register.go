package setup

import (
	"io"
	"reflect"
	"strings"

	"ropeway/internal/core"
	"ropeway/internal/driver"
)

// What a program has besides the software device is registered by the packages it imports, when they are initialised:
// internal/setup/cudadriver, internal/setup/checker and internal/setup/podservers. So a program that imports none
// links none.

// OpenDriver opens a driver. What the user should know goes to say, one line each.
type OpenDriver func(s *Settings, say func(string)) (driver.Driver, error)

// Checker is a checker that is set up and not open yet.
type Checker interface {
	// Open puts the checker around a driver. Findings that go nowhere else are printed to w.
	Open(d driver.Driver, w io.Writer, say func(string)) (driver.Driver, core.CheckHooks)
}

// CheckVariables are the values of the variables that concern the checker.
type CheckVariables struct{ Check, Inject, Report, Suppress string }

// ReadCheck sets up a checker. The error names the variable that is wrong.
type ReadCheck func(v CheckVariables) (Checker, *BadVariable)

// BadVariable is a variable with a value that nothing can be opened with, and why.
type BadVariable struct{ Name, Value, Why string }

// Pod is other servers that are set up and not open yet.
type Pod interface {
	// Open puts them in front of a driver. Nothing is opened or listens before something is exported or imported.
	Open(d driver.Driver) (driver.Driver, error)
}

// ReadPod reads a pod file, for the server with a number, or "" to find that out.
type ReadPod func(file, server string) (Pod, error)

// Locator finds the file with code that an address is in, as recorder.Options.Locate does. A program whose calls come
// from C needs one; Go knows its functions without.
type Locator func(pc uintptr) (file string, offset uint64, build string)

// drivers, readCheck, readPod and newLocator are written when packages are initialised, and read afterwards.
var (
	drivers   = map[string]OpenDriver{softDriver: OpenSoft}
	readCheck ReadCheck
	readPod   ReadPod

	newLocator func() Locator
)

// RegisterDriver adds a driver under a name that ROPEWAY_DRIVER may have. It is called when packages are initialised.
func RegisterDriver(name string, open OpenDriver) { drivers[name] = open }

// RegisterChecker adds the checker. It is called when packages are initialised.
func RegisterChecker(read ReadCheck) { readCheck = read }

// RegisterPod adds other servers. It is called when packages are initialised.
func RegisterPod(read ReadPod) { readPod = read }

// RegisterLocator adds what makes a locator for a recorder. It is called when packages are initialised.
func RegisterLocator(make func() Locator) { newLocator = make }

// ModulePath is the path of the module.
var ModulePath = strings.TrimSuffix(reflect.TypeFor[Settings]().PkgPath(), "/internal/setup")

// notLinked says which import is missing.
func notLinked(what, pkg string) string {
	return "this program was built without " + what + "; a Go program has it by import _ \"" + ModulePath +
		"/" + pkg + "\""
}
