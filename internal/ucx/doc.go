// Package ucx calls libucp, the communication library UCX, without cgo: contexts, workers with a wake-up file
// descriptor and one endpoint each, which reports a failed peer, and active messages.
//
// Nothing is opened before [Load]. A [Worker] is used by one goroutine at a time; only [Worker.Signal] may be called
// by any goroutine. Methods of the [Handler] are called by [Worker.Progress], in its goroutine; they may send but
// must not close the worker.
//
// Layouts and constants are those of UCX 1.13; structs have a mask of the valid fields, so later versions accept
// them. TestLayout compares them with the headers, where these are installed.
package ucx
