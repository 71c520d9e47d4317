package setup

import (
	"io"
	"reflect"
	"strings"

	"ropeway/internal/core"
	"ropeway/internal/driver"
)

// Features besides the software device are registered by the packages that a program imports, when they are
// initialised: internal/setup/cudadriver, internal/setup/checker and internal/setup/podservers. So a program links
// only the features it imports.

// OpenDriver opens a driver. Warnings go to say, one line each.
type OpenDriver func(s *Settings, say func(string)) (driver.Driver, error)

// Checker is a configured checker that is not open yet.
type Checker interface {
	// Open returns a driver with the checker in front of d. Findings are printed to w if there is no other sink.
	Open(d driver.Driver, w io.Writer, say func(string)) (driver.Driver, core.CheckHooks)
}

// CheckVariables are the values of the variables that concern the checker.
type CheckVariables struct{ Check, Inject, Report, Suppress string }

// ReadCheck configures a checker. The error names the invalid variable.
type ReadCheck func(v CheckVariables) (Checker, *BadVariable)

// BadVariable is a variable with an invalid value, and the reason.
type BadVariable struct{ Name, Value, Why string }

// Pod is a configured pod that is not open yet.
type Pod interface {
	// Open returns a driver for the pod in front of d. It opens no connection and does not listen before something is
	// exported or imported.
	Open(d driver.Driver) (driver.Driver, error)
}

// ReadPod reads a pod file, for the server with the given number; "": the server with an address of this machine.
type ReadPod func(file, server string) (Pod, error)

// Locator returns the executable or library that contains an address, like recorder.Options.Locate. It is needed if
// calls come from C; the Go runtime describes Go functions itself.
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

// RegisterLocator adds the constructor of a recorder's locator. It is called when packages are initialised.
func RegisterLocator(make func() Locator) { newLocator = make }

// ModulePath is the path of the module.
var ModulePath = strings.TrimSuffix(reflect.TypeFor[Settings]().PkgPath(), "/internal/setup")

// notLinked returns a text that names the missing import.
func notLinked(what, pkg string) string {
	return "this program was built without " + what + "; a Go program has it by import _ \"" + ModulePath +
		"/" + pkg + "\""
}
