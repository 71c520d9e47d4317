// Package pod moves memory between servers: processes on several machines that have one key and know each other's
// addresses.
//
//	importer                                        exporter
//	Import ── TLS 1.3, both sides prove the key ──→ the process's own port, on the configured address
//	Copy ──── UCX: active messages ───────────────→ checked against what is exported, then written in place
//
// Two things join two processes (a link): a TLS connection, over which memory is opened and closed, and a UCX worker
// with one endpoint on each side, over which bytes go. The TLS connection ends with the process at its other end,
// whatever UCX's transport notices. Each side draws a token for the messages it gets; a message without it is dropped.
//
// The owner of memory carries out every access: a write is a message that it receives into place, a read a request
// that it answers with the bytes. So no address and no remote key leaves a process, and every range is checked by its
// owner. docs/architecture.md has the protocol, RATIONALE.md why it is not ucp_put. Memory of a process of the same
// user in the same network namespace is mapped instead: near.go.
//
// One goroutine, the engine, has the UCX worker of a link to itself. It sleeps when there is nothing to do, and ends
// with the link.
//
// Lock order: Remote.opening → Node.mu, link.mu → engine.mu. Nothing is locked with Remote.mu or Export.mu held. Three
// locks are held over a wait: link.mu while the owner is asked and answers, Remote.opening while a link is made and
// memory opened again, Export.mirroring while a Mirror copies. No lock is held while a done function runs.
package pod
