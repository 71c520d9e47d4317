// Package setup turns the environment into an open runtime: it reads the variables a program is
// started with, says in one line each what is wrong with them, and opens the driver, the product
// and the log they name. docs/environment.md is the same list for people.
package setup
