// Package hostqueue is the engine of queues whose tasks the host orders: a list of operations, the state machine that
// says which goroutine may run them, dropping, shutting and closing, waiting, and tasks that wait themselves. Drivers
// embed a [Queue] and are its [Backend]: they decide which operations run in the submitter, start a goroutine
// (Schedule) and carry out operations (Exec).
//
// # States
//
// A word holds the state of a queue, a bit for shut (what is submitted is discarded) and one for paused (nothing runs
// while shared memory moves). The state says which goroutine may run tasks:
//
//	Rest ── submit ──▶ Ready ── claim ──▶ Running ── the head has to wait ──▶ Parked ── wake ──▶ Ready
//	Rest ── a short operation ──▶ Inline ── end ──▶ Rest, or Ready if a task has arrived
//	Running (on a GPU also Starting, Ending) ── end ──▶ Rest, or Ready if there is more
//
// These are all transitions; TestTransitions compares the list with the code. Another one is a bug and ends the
// process. Transitions are made with Mu held, except the two marked *, which are a compare-and-swap.
//
//	Rest → Inline      a submitter runs its own short operation; the queue is neither shut nor paused *
//	Rest → Ready       a submitter has put a task into the list, or a GPU has work whose end must be handled
//	Inline → Rest      that operation has ended and no task has arrived *
//	Inline → Ready     that operation has ended and a task has arrived (bit late)
//	Ready → Running    a worker, the runner of a GPU's queue or a waiting goroutine claims the queue; not if paused
//	Ready → Starting   the runner, a waiting goroutine or a submitter gives tasks to the GPU, without Mu
//	Ready → Ending     the runner or a waiting goroutine ends tasks that the GPU has done, without Mu
//	Running → Rest     the list is empty
//	Running → Ready    there is more: another queue gets a turn, the waiter has what it wanted, or a pause began
//	Running → Parked   the head waits for a flag, a condition, a time or a host function
//	Starting → Rest    everything is on the stream and nothing has to be ended
//	Starting → Ready   there is more in the list, or something has to be ended
//	Ending → Rest      there is nothing else
//	Ending → Ready     there is more in the list, or something has to be ended
//	Parked → Ready     the flag is set, the gate passes, the time is up, the function has returned, or a drop came
//
// The code that makes a queue Ready calls Schedule, unless the queue is paused; then Resume does. A goroutine that
// finds the queue in another state when it arrives leaves. So one goroutine is always responsible, and no wake-up is
// lost. Test binaries, and any program with ROPEWAY_TEST_STATES=1, check the invariants of the state whenever the lock
// of a queue is released (invariant.go).
//
// Drop discards the list, except a launch at its head that lacks nothing but a goroutine: on hardware it has begun.
// Shut also discards what comes later. Close is Shut for ever; it waits for the running task and releases what the
// queue holds of the device.
//
// Launches in a row run without the lock between them (series.go). A goroutine that drops or watches the queue sets the
// bit late, one that pauses it the bit paused; the row ends after the launch during which either was set.
//
// # Exploration
//
// With the build tag explore each meeting of goroutines (lock, word, signal, timer) is a step of a scheduler; in other
// builds these are the types of the standard library (sync.go). TestExplore runs two to four goroutines in every order
// that can make a difference. In package cuda it runs whole queues over fake GPUs, in random orders.
// TestExplorationFindsFaults of both packages seeds faults into the source and expects each to be found.
//
// # Locks
//
// Queue.Mu, then Flag.mu; a back end adds its own after these.
package hostqueue
