// Package setup turns the environment into an open runtime: it reads the program's environment variables, reports
// each invalid one in a line, and opens the driver, the product and the log they name. docs/environment.md documents
// the variables.
//
// It imports only the software device. The checker, the cuda driver and the pod register themselves when their
// packages (checker, cudadriver, podservers) are initialised, so a program links what it imports, as with
// database/sql. If a variable requires a package that was not linked, the error names the missing import.
package setup
