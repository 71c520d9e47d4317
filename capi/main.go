// Command capi is libropeway_core.so: the core with one exported function, for the C library (capi/shim). It is built
// with -buildmode=c-shared.
//
// A Go runtime neither survives fork nor can be unloaded. So the library that programs link is plain C, and loads the
// core from beside itself at the first call. Between them is the entry point (shim/entry.h): a function number, the
// thread as the core knows it, and the arguments as slots of 64 bits. Both sides are generated from the table; a
// fingerprint of the table makes a shim refuse a core that was built from another one.
//
//   - Threads: a thread's first call registers it. The destructor of a pthread key unregisters it, one round late, so
//     that other destructors still find their context.
//   - Fork: the entry point of the shim is NULL, the core's, or in a forked child a function that refuses every call.
//   - Exit: the process waits until no copy runs (Runtime.Quiet). A thread of the shim enters the core for that,
//     because exit may be called in a signal handler, above frames of the Go runtime (shim/exit.c).
//   - Faults: a wild pointer of the program makes the call return 100000; a panic of ropeway becomes 500000 and a
//     trace.
//   - Callbacks are C function pointers in Go closures. They are called with no lock held: on the C thread that is
//     inside the API (reports, states), or on a thread of the Go runtime (host functions, exceptions).
//   - Memory of C stays C's: handles are numbers, pointers are followed during the call only, and no Go pointer is kept
//     in C memory.
package main

// main is never run: the program is C's.
func main() {}
