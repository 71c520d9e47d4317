// Package pod moves memory between servers: processes on several machines that share a key and know each other's
// addresses.
//
//	importer                                      exporter
//	Import ── TLS 1.3, both sides prove the key ─→ the process's own port, on the configured address
//	Copy ──── the same port, TLS or a ticket ────→ checked against what is exported, then received into place
//
// A link joins two processes: a control connection, over which memory is opened and closed, and connections for copies.
// On one machine they are Unix sockets, and memory is mapped instead of copied: near.go. With RDMA, copies use UCX:
// engine.go. The link ends with the process at its other end.
//
// The owner of memory carries out every access: a write is a message that it receives into place, a read a request that
// it answers with the bytes. So no address leaves a process, and every range is checked by its owner. RATIONALE.md says
// why that is not UCX's TCP.
//
// # Links
//
// A link is made by the first import from a process, its connections for copies (lanes) by the first copy and the first
// large one, and it goes with the last import. It fails when a connection ends, or when a copy makes no progress for
// the pod's timeout; then all copies on it end, and a later one tries once to make a new link and to open its memory
// again. The owner ends the importer's old link before it takes a new one, so writes that were given up cannot arrive
// after newer ones.
//
// # Requests
//
// There are writes and reads of a range, and scatters and gathers, which have a list (wire.go). Small segments travel
// together, up to 256 KiB. A lane has 16 requests in flight, of several copies in turn, and answers come in their
// order. A write is sent from where it is only if the memory stays until the copy ends ([Remote.WriteStaying]); other
// memory may be gone, and is copied first, in a function that survives the fault. A copy that has ended uses no memory
// of its process, whatever the owner says: an answer counts when all of its request was sent.
//
// Of an importer's lane one goroutine sends and one receives, of an owner's one does both; a small copy on an idle lane
// is sent by its caller. Over RDMA a link has an engine instead, a goroutine with a UCX worker of its own.
//
// # Locks
//
// Order: Remote.opening → Node.mu, link.mu → requester.mu, engine.mu; responder.mu → Export.mu. Nothing is locked with
// Remote.mu or Export.mu held. Three locks are held over a wait: link.mu while the owner is asked and answers,
// Remote.opening while a link is made and memory opened again, Export.mirroring while a Mirror copies. No lock is held
// while a done function runs, which may be in the goroutine that began the copy.
package pod
