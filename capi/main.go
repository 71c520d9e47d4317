// Command capi is libropeway_core.so: the core with one exported function, for the C library
// (capi/shim). It is built with -buildmode=c-shared.
package main

// main is never run: the program is C's.
func main() {}
