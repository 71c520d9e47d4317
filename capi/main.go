// Command capi is libropeway_core.so: the core behind one exported function, for the C library in front of it
// (capi/shim). It is built with -buildmode=c-shared.
package main

// main is never run: the program is C's.
func main() {}
