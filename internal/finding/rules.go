package finding

// Rule is one kind of mistake. Names are stable: suppressions and scripts use them.
type Rule struct {
	Name     string
	Severity Severity
	Catches  string // one line for lists
	Advice   string // what to do
}

// Rules are all rules, in the order people read them.
var Rules = []Rule{
	{"host-read-in-flight", Error, "the host reads a destination before the copy into it is known to be complete",
		"Synchronise the stream (aclrtSynchronizeStream), or wait for an event recorded after the copy, before " +
			"reading."},
	{"host-write-in-flight", Error, "the host writes a source, or a destination, of a pending copy",
		"Leave the buffer alone until the copy is known to be complete: synchronise first, or use a second buffer."},
	{"device-memory-on-host", Error, "the host reads or writes device memory by its address",
		"Copy the bytes to host memory first (aclrtMemcpy, or aclrtMemcpyAsync and aclrtSynchronizeStream): only " +
			"the device can use its addresses."},
	{"host-out-of-bounds", Error, "the host reads or writes past the end of pinned memory, or before its start",
		"Correct the index or the size, or allocate as much as is used."},
	{"stream-race", Error, "two tasks on different streams touch the same bytes, one writes, nothing orders them",
		"Record an event after the first task and let the other stream wait for it (aclrtStreamWaitEvent), or " +
			"synchronise between them."},
	{"free-in-flight", Error, "memory, a stream, a context or a device goes while work on it is pending, or " +
		"registered memory before it is unregistered",
		"Synchronise before freeing it."},
	{"unsynchronised-exit", Error, "the program ends with work that was never synchronised",
		"Synchronise every stream (aclrtSynchronizeDevice) before aclFinalize and before the process ends."},
	{"deadlock", Error, "a call waits for work that cannot go on before the call returns, or that nothing lets go on",
		"Let no function of a stream wait for its own stream, and submit what a stream waits for before waiting for " +
			"the stream."},
	{"use-after-free", Error, "memory, a stream, an event or another object is used after it was freed",
		"Free it after its last use, and do not keep its address."},
	{"double-free", Error, "memory, a stream, an event or another object is freed twice",
		"Free it once, in one place that owns it."},
	{"invalid-free", Error, "an address is freed that is not the start of an allocation, or by the wrong function",
		"Free the address that the allocation returned, with the function that belongs to it."},
	{"leak", Error, "memory, a stream, an event or another object is never freed",
		"Free memory and destroy streams, events, notifies, pools and contexts before aclrtResetDevice and " +
			"aclFinalize."},
	{"out-of-bounds", Error, "a copy or fill goes past destMax, past the end of its allocation, or its pitch runs out",
		"Correct the size, or allocate as much as is copied."},
	{"batch-overlap", Error, "segments of one unordered batch, or source and destination of a copy, overlap",
		"Segments of a batch run in any order: make them disjoint, or use two batches on one stream."},
	{"wrong-direction", Error, "kind, a batch attribute or an argument of a kernel disagrees with where the memory is",
		"Give the direction the memory has. On some products the call fails, on others it copies the other way."},
	{"pageable-async", Warning, "an asynchronous copy blocked because its host memory is not pinned",
		"Allocate the host buffer with aclrtMallocHost, or register it with aclrtHostRegister."},
	{"misaligned", Warning, "an asynchronous copy with an address that is not a multiple of 64",
		"Align both addresses to 64 bytes; the documents of aclrtMemcpyAsync ask for it."},
	{"host-to-host-async", Error, "an asynchronous copy from host to host",
		"Use memcpy or aclrtMemcpy; products differ in what they make of it."},
	{"mixed-directions", Error, "a batch with both directions",
		"Make one batch for each direction."},
	{"unset-descriptor", Error, "a descriptor copy whose descriptor was never set, or whose addresses are no longer " +
		"alive",
		"Set the descriptor (aclrtSetMemcpyDesc) before the copy runs, and keep its memory until it has run."},
	{"uninitialised-read", Warning, "a copy out of device memory that was never written",
		"Write the memory first, or fill it with aclrtMemset."},
	{"wrong-context", Error, "a stream, event or model of another context, or a thread that has none",
		"Call aclrtSetDevice or aclrtSetCurrentContext in this thread, with the context that the stream, event or " +
			"model was made in."},
	{"peer-access", Error, "a copy between devices, or work on another device's memory, without access to it",
		"Call aclrtDeviceEnablePeerAccess on the device that does the work, after aclrtDeviceCanAccessPeer said " +
			"that it can."},
	{"broken-capture", Error, "a call that an open capture does not allow, or that invalidates it",
		"Make the call before the capture begins, or after it has ended."},
	{"stale-model", Error, "a model is executed that refers to memory which was freed, or freed and allocated again",
		"Keep the memory of a model until the model is destroyed. To use other memory, capture the model again or " +
			"change its tasks."},
	{"streams-used-up", Warning, "there is no stream left, or a model has more than an execution takes",
		"Destroy streams and models that are no longer needed, and share a few streams instead of making one for " +
			"each piece of work."},
	{"api-error", Warning, "a call failed, and the program does not look at the code that it returned",
		"Look at what every call returns. What comes after this one works with something that was not done."},
	{"fork-after-init", Error, "a forked child uses AscendCL that its parent had initialised",
		"Fork before the first acl call, or start the child with exec (Python: multiprocessing with \"spawn\")."},
}

// Page returns the page and anchor of the documentation that describes a rule, in the toolkit and in the repository.
func (r *Rule) Page() string { return "docs/check.md#" + r.Name }

// Explain returns the command that describes a rule.
func (r *Rule) Explain() string { return "ropeway explain " + r.Name }

// ByName returns the rule with a name, or nil.
func ByName(name string) *Rule {
	for i := range Rules {
		if Rules[i].Name == name {
			return &Rules[i]
		}
	}
	return nil
}
