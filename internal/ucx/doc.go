// Package ucx calls libucp, the communication library UCX, without cgo: contexts, workers with a wake-up file
// descriptor and one endpoint each, which reports a failed peer, and active messages.
//
// Nothing is opened before [Load]. A [Worker] is used by one goroutine at a time; only [Worker.Signal] may be called
// by any. Functions of the [Handler] are called by [Worker.Progress], in its goroutine, and may send; they may not
// close the worker.
//
// Layouts and constants are those of UCX 1.13; structs have a mask that says which fields count, so later versions
// take them as they are. TestLayout compares them with the headers, where these are installed.
package ucx
