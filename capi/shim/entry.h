/*
 * The border between the shim (libascendcl.so, C) and the core (libropeway_core.so, Go).
 *
 * The core exports one function, the entry point. Functions are numbered (numbers.h), arguments are slots of 64 bits in the
 * order of the prototype: pointers and handles as addresses, integers extended by their sign, a float by its bits, a
 * struct by its address. The result is a slot too. So neither side knows how the other lays out its types.
 */
#ifndef ROPEWAY_ENTRY_H
#define ROPEWAY_ENTRY_H

#include <stddef.h>
#include <stdint.h>

#include "numbers.h"

#define ROPEWAY_CORE "libropeway_core.so"
#define ROPEWAY_ENTRY "ropeway_core_call"
#define ROPEWAY_ORDER "ropeway_order"

/* A thread of the program, as the core knows it. NULL where the core could not be opened. */
typedef void *ropeway_thread;

/* Where a thread calls from, for recordings. Written by the thread before a call, read by the core when the call begins. */
typedef struct ropeway_site {
	uint64_t address;    /* to which the function of the API returns */
	uint32_t name, line; /* of an interpreter's frame: ROPEWAY_NAME_FRAME; name 0: there is none */
} ropeway_site;

typedef uint64_t (*ropeway_entry)(uint32_t function, ropeway_thread thread, uint64_t *slots);

/* What the shim itself asks of the core. */
enum {
	/* () -> ROPEWAY_TABLE of the core. Asked first. */
	ROPEWAY_TABLE_OF_CORE = ROPEWAY_FUNCTIONS,
	/*
	 * (pthread id, thread id of the system, ropeway_site *, int32_t *recorded) -> ropeway_thread. Asked by each thread before its first
	 * call. *recorded becomes 1 if calls are recorded: the site is to be kept up to date then, until the thread leaves.
	 */
	ROPEWAY_ENTER,
	/* () -> 0. The thread ends. */
	ROPEWAY_LEAVE,
	/* () -> 0, once no copy is running. Asked when the process ends. */
	ROPEWAY_QUIET,
	/* (what, handle, milliseconds, int32_t *over) -> aclError. Waits for a while; time that ran out is no error. */
	ROPEWAY_WAIT,
	/* (function of the program) -> 0. It is not called any more: an interpreter that it needs is about to end. */
	ROPEWAY_RETIRE,
	/* () -> how many executions of models are queued or running. */
	ROPEWAY_EXECUTIONS,
	/* () -> 0. Does nothing: what a call into the core costs. */
	ROPEWAY_EMPTY,
	/* (const char *file, const char *function) -> a number for ropeway_site.name. 0 if calls are not recorded. */
	ROPEWAY_NAME_FRAME,

	/* (run, stop, prepare, call, watch) -> 0. Where the functions of kernel.h are. Asked before the first thread enters. */
	ROPEWAY_KERNELS,

	/* What programs call besides the functions of the API, ROPEWAY_SYMBOL and ROPEWAY_LOAD_FUNCTIONS. */

	/* (symbol, size, initial value) -> aclError. ropewayRegisterSymbol: see ropeway/symbol.h. */
	ROPEWAY_SYMBOL,
	/* (const ropeway_function *, count, handle of the binary) -> aclError. ropeway_load_functions: see ropeway/kernel.h. */
	ROPEWAY_LOAD_FUNCTIONS,

	/* What the checker asks (libropeway_check.so); with checking off nobody does. */

	/* (const ropeway_checker *) -> 0. Asked before the first thread enters; what it points to stays good. */
	ROPEWAY_CHECKER,
	/* (const ropeway_call *) -> 0. The record of the calling thread, asked right after ROPEWAY_ENTER. */
	ROPEWAY_WATCH,
	/*
	 * (address, length, write, instruction, const ropeway_call *, ropeway_touch *touch) -> 0. The host is about to touch
	 * memory that is closed. length: 0 where it is not known; instruction: its address, 0 for a system call. The record
	 * is of this access: it is in no function. The thread may be NULL.
	 */
	ROPEWAY_TOUCH,
	/* (const ropeway_touch *) -> 0. The instruction or system call is over: what was opened for it is closed. */
	ROPEWAY_STEPPED,
	/* (uint64_t window[2]) -> 0. Where pinned memory can lie, [0] to before [1]. */
	ROPEWAY_SPANS,
	/* (const char *text) -> 0. What the checker cannot do here. */
	ROPEWAY_NOTE,
	/* (address, length) -> 1 if work on these bytes is in flight. */
	ROPEWAY_IN_FLIGHT,
	/* (address, length) -> 0. What has run on these bytes is known to be complete. */
	ROPEWAY_COMPLETE,
	/* (1 or -1) -> 0. What this thread does is not judged from now on, or is again. The checker handles it itself. */
	ROPEWAY_IGNORE,
	/* () -> number of findings so far. */
	ROPEWAY_FINDINGS,
	/* () -> the findings so far as a JSON array, for free(). */
	ROPEWAY_REPORT,
	/* (1 or -1) -> 0. The program prints findings itself from now on, or no longer. */
	ROPEWAY_TELL,
	/* () -> the text of what was found since the last call, for free(); 0 if nothing was. */
	ROPEWAY_NEWS,
	/*
	 * (address, length, ROPEWAY_FREED or another, argument, const ropeway_call *) -> 0. The program is about to take memory away
	 * from itself, some of which is registered. argument: the size that realloc and mremap are to make of it. When it returns, none
	 * of the memory is closed. The record is as for ROPEWAY_TOUCH.
	 */
	ROPEWAY_VANISH,
	/* () -> 0. Opens all memory that is known to be complete: a system call is made whose memory cannot be seen. */
	ROPEWAY_OPEN_KNOWN,
	/* () -> 0. Nothing of the program runs any more: what is left is judged, and the report ends. */
	ROPEWAY_END,
	ROPEWAY_NUMBERS
};

/* What ROPEWAY_WAIT waits for: what the function without a timeout would. */
enum { ROPEWAY_WAIT_STREAM, ROPEWAY_WAIT_EVENT, ROPEWAY_WAIT_DEVICE, ROPEWAY_WAIT_REPORT };

/*
 * Checking. When ROPEWAY_CHECK is set (not to "" or "0"), libropeway_check.so stands before the core's entry point. It is preloaded
 * by `ropeway check`, or loaded from beside libascendcl.so.
 */
#define ROPEWAY_CHECK_LIBRARY "libropeway_check.so"
#define ROPEWAY_CHECK_PREPARE "ropeway_check_prepare"
#define ROPEWAY_CHECK_ATTACH "ropeway_check_attach"
#define ROPEWAY_CHECK_FORKED "ropeway_check_forked"

/* Loads what the checker needs. Several threads may call it at once. */
typedef void (*ropeway_prepare)(void);

/* Asks the core for what takes no arguments, while the process ends: the calling thread may not be able to. */
typedef void (*ropeway_at_end)(uint32_t function);

/*
 * A fault in memory that is watched, in the signal handler of the thread that has it. ROPEWAY_OPENED: a kernel runs, and may go on;
 * ROPEWAY_INSIDE: the thread is in a kernel, which ends by it; ROPEWAY_WITHIN: it is in a function of the program that runs as one; 0: it is the
 * host's. context is NULL before a system call that is about to touch the memory.
 */
enum { ROPEWAY_OPENED = 1, ROPEWAY_INSIDE = 2, ROPEWAY_WITHIN = 3 };
typedef int (*ropeway_fault)(uintptr_t address, int write, const void *context);

/* Puts itself before the core's entry point. Called once, after preparing; loads nothing. */
typedef ropeway_entry (*ropeway_attach)(ropeway_entry core, ropeway_at_end at_end, ropeway_fault fault);

/* Reports that a forked child called a function. Called in that child, from within the function. */
typedef void (*ropeway_forked)(const char *function);

/* This bit of the line of the innermost frame of an interpreter says that the program drops what the call returns. */
#define ROPEWAY_DROPPED (UINT32_C(1) << 31)

enum { ROPEWAY_DEPTH = 32, ROPEWAY_NO_CALL = ROPEWAY_NUMBERS };

/* What a thread is doing. Written by its own thread only. */
typedef struct ropeway_call {
	uint32_t function;             /* the API function it is in; ROPEWAY_NO_CALL: none */
	uint32_t depth;                /* addresses in stack */
	uint64_t *slots;               /* arguments of the function */
	uint64_t stack[ROPEWAY_DEPTH]; /* return addresses, innermost first: of the program, not ours. Of an access, the first
					* is one past the beginning of the instruction, so that all are used alike. */
	uint32_t named;                /* frames of an interpreter in names, innermost first */
	struct {
		uint32_t name, line; /* name: from ropeway_check_name_frame */
	} names[ROPEWAY_DEPTH];
	uint32_t ignored; /* not 0: the program asked that what this thread does is not judged */
	uint32_t thread;  /* the system's number of the thread; of an access by a kernel ROPEWAY_KERNEL_THREAD */
} ropeway_call;

#define ROPEWAY_KERNEL_THREAD UINT32_MAX

/* What to do about a touch. */
enum {
	ROPEWAY_NOT_OURS, /* the program's own fault */
	ROPEWAY_OPEN,     /* the memory is open now */
	ROPEWAY_STEP      /* it is open for one instruction or system call; then ask ROPEWAY_STEPPED */
};

typedef struct ropeway_touch {
	uint32_t what, prot;
	uint64_t page, length; /* what was opened */
	uint64_t delta;        /* where the engine sees it: address + delta; 0 if nowhere */
} ropeway_touch;

/*
 * How memory of the program goes: by free, realloc, munmap, mremap, or a mapping at a fixed address. ROPEWAY_RETURNED: it is the part
 * of a thread's stack that no function has any more, and the record is of the call in which that was seen.
 */
enum { ROPEWAY_FREED, ROPEWAY_REALLOCATED, ROPEWAY_UNMAPPED, ROPEWAY_MOVED, ROPEWAY_REPLACED, ROPEWAY_RETURNED };

/* What the core may call of the checker, from any thread. */
typedef struct ropeway_checker {
	/* The memory whose faults are brought to ROPEWAY_TOUCH: pairs of first address and end, sorted and disjoint. */
	void (*spans)(const uint64_t *pairs, size_t n);
	/* Device memory, which the host cannot touch: faults there are brought to ROPEWAY_TOUCH too, and stay faults. */
	void (*device)(uint64_t low, uint64_t high);
	/* Registered memory of the program, which ROPEWAY_VANISH reports; and its device addresses. Pairs like those of spans. */
	void (*registered)(const uint64_t *pairs, size_t n);
	void (*aliases)(const uint64_t *pairs, size_t n);
	/* Pinned memory, now and later; and which pages of it have bytes of an allocation. Nothing opens the others. */
	void (*pinned)(uint64_t low, uint64_t high);
	void (*pages)(uint64_t low, uint64_t high, int there);
	/* The texts of a name in ropeway_call.names. NULL if there is no such name. */
	const char *(*file)(uint32_t name);
	const char *(*name)(uint32_t name);
} ropeway_checker;

#endif
