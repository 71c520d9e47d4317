// Package setup turns the environment into an open runtime: it reads the variables a program is started with, says in
// one line each what is wrong with them, and opens the driver, the product and the log they name. docs/environment.md
// is the same list for people.
//
// It knows the software device alone. The checker, the cuda driver and the pod register themselves when their packages
// (checker, cudadriver, podservers) are initialised, so a program links what it imports, as with database/sql. A
// variable that asks for what was not linked is refused with the missing import.
package setup
