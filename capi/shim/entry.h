/*
 * The border between the shim (libascendcl.so, C) and the core (libropeway_core.so, Go).
 *
 * The core exports one function, the entry point. Functions are numbered (numbers.h), arguments are slots of 64 bits in the
 * order of the prototype: pointers and handles as addresses, integers extended by their sign, a float by its bits, a
 * struct by its address. The result is a slot too. So neither side depends on the type layout of the other.
 */
#ifndef ROPEWAY_ENTRY_H
#define ROPEWAY_ENTRY_H

#include <stddef.h>
#include <stdint.h>

#include "numbers.h"

#define ROPEWAY_CORE "libropeway_core.so"
#define ROPEWAY_ENTRY "ropeway_core_call"
#define ROPEWAY_ORDER "ropeway_order"

/* A thread of the program, as the core knows it. NULL if the core could not be opened. */
typedef void *ropeway_thread;

/* The call site of a thread, for recordings. Written by the thread before a call, read by the core when the call
 * begins. */
typedef struct ropeway_site {
	uint64_t address;    /* return address of the function of the API */
	uint32_t name, line; /* of an interpreter's frame: ROPEWAY_NAME_FRAME; name 0: there is none */
} ropeway_site;

typedef uint64_t (*ropeway_entry)(uint32_t function, ropeway_thread thread, uint64_t *slots);

/* Requests of the shim itself to the core. */
enum {
	/* () -> ROPEWAY_TABLE of the core. The first request. */
	ROPEWAY_TABLE_OF_CORE = ROPEWAY_FUNCTIONS,
	/*
	 * (pthread id, thread id of the system, ropeway_site *, int32_t *recorded) -> ropeway_thread. Made by each thread
	 * before its first call. *recorded becomes 1 if calls are recorded: then the site must be kept up to date until
	 * the thread leaves.
	 */
	ROPEWAY_ENTER,
	/* () -> 0. The thread ends. */
	ROPEWAY_LEAVE,
	/* () -> 0, once no copy is running. Made when the process ends. */
	ROPEWAY_QUIET,
	/* (what, handle, milliseconds, int32_t *over) -> aclError. Waits at most that long; a timeout is not an error. */
	ROPEWAY_WAIT,
	/* (function of the program) -> 0. The core no longer calls it: an interpreter that it needs is about to end. */
	ROPEWAY_RETIRE,
	/* () -> the number of executions of models that are queued or running. */
	ROPEWAY_EXECUTIONS,
	/* () -> 0. Does nothing: measures the cost of a call into the core. */
	ROPEWAY_EMPTY,
	/* (const char *file, const char *function) -> a number for ropeway_site.name. 0 if calls are not recorded. */
	ROPEWAY_NAME_FRAME,

	/* (run, stop, prepare, call, watch) -> 0. The addresses of the functions of kernel.h. Made before the first
	 * thread enters. */
	ROPEWAY_KERNELS,

	/* Functions for programs besides the API, ROPEWAY_SYMBOL and ROPEWAY_LOAD_FUNCTIONS. */

	/* (symbol, size, initial value) -> aclError. ropewayRegisterSymbol: see ropeway/symbol.h. */
	ROPEWAY_SYMBOL,
	/* (const ropeway_function *, count, handle of the binary) -> aclError. ropeway_load_functions: see ropeway/kernel.h. */
	ROPEWAY_LOAD_FUNCTIONS,

	/* Requests of the checker (libropeway_check.so); with checking off there are none. */

	/* (const ropeway_checker *) -> 0. Made before the first thread enters; the struct stays valid. */
	ROPEWAY_CHECKER,
	/* (const ropeway_call *) -> 0. The record of the calling thread, right after ROPEWAY_ENTER. */
	ROPEWAY_WATCH,
	/*
	 * (address, length, write, instruction, const ropeway_call *, ropeway_touch *touch) -> 0. The host is about to
	 * access closed memory. length: 0 if unknown; instruction: its address, 0 for a system call. The record is of
	 * this access: its function is ROPEWAY_NO_CALL. The thread may be NULL.
	 */
	ROPEWAY_TOUCH,
	/* (const ropeway_touch *) -> 0. The instruction or system call is over: closes the memory opened for it. */
	ROPEWAY_STEPPED,
	/* (uint64_t window[2]) -> 0. The range of all pinned memory, from [0] to before [1]. */
	ROPEWAY_SPANS,
	/* (const char *text) -> 0. Reports a limitation of the checker. */
	ROPEWAY_NOTE,
	/* (address, length) -> 1 if work on these bytes is in flight. */
	ROPEWAY_IN_FLIGHT,
	/* (address, length) -> 0. Marks finished work on these bytes as known to be complete. */
	ROPEWAY_COMPLETE,
	/* (1 or -1) -> 0. Stops or resumes judging this thread. The checker handles it itself. */
	ROPEWAY_IGNORE,
	/* () -> number of findings so far. */
	ROPEWAY_FINDINGS,
	/* () -> the findings so far as a JSON array, for free(). */
	ROPEWAY_REPORT,
	/* (1 or -1) -> 0. The program starts or stops printing findings itself. */
	ROPEWAY_TELL,
	/* () -> the text of the findings since the last call, for free(); 0 if there are none. */
	ROPEWAY_NEWS,
	/*
	 * (address, length, ROPEWAY_FREED or another, argument, const ropeway_call *) -> 0. The program is about to
	 * remove memory, some of which is registered. argument: the new size for realloc and mremap. When it returns,
	 * none of the memory is closed. The record is as for ROPEWAY_TOUCH.
	 */
	ROPEWAY_VANISH,
	/* () -> 0. Opens all memory that is known to be complete, before a system call whose buffers are unknown. */
	ROPEWAY_OPEN_KNOWN,
	/* () -> 0. No code of the program runs any longer: judges the remaining work, and ends the report. */
	ROPEWAY_END,
	ROPEWAY_NUMBERS
};

/* What ROPEWAY_WAIT waits for, like the function without a timeout. */
enum { ROPEWAY_WAIT_STREAM, ROPEWAY_WAIT_EVENT, ROPEWAY_WAIT_DEVICE, ROPEWAY_WAIT_REPORT };

/*
 * Checking. When ROPEWAY_CHECK is set (not to "" or "0"), the entry point of libropeway_check.so is called instead of
 * the core's. The library is preloaded by `ropeway check`, or loaded from beside libascendcl.so.
 */
#define ROPEWAY_CHECK_LIBRARY "libropeway_check.so"
#define ROPEWAY_CHECK_PREPARE "ropeway_check_prepare"
#define ROPEWAY_CHECK_ATTACH "ropeway_check_attach"
#define ROPEWAY_CHECK_FORKED "ropeway_check_forked"

/* Loads the libraries that the checker needs. Several threads may call it at the same time. */
typedef void (*ropeway_prepare)(void);

/* Makes a request without arguments to the core while the process ends, when the calling thread may not be able to
 * enter it. */
typedef void (*ropeway_at_end)(uint32_t function);

/*
 * A fault in watched memory, called in the signal handler of the faulting thread. ROPEWAY_OPENED: a kernel runs, and
 * may continue; ROPEWAY_INSIDE: the thread is in a kernel, which the fault ends; ROPEWAY_WITHIN: it is in a function
 * of the program that runs as one; 0: it is the host's. context is NULL before a system call that is about to access
 * the memory.
 */
enum { ROPEWAY_OPENED = 1, ROPEWAY_INSIDE = 2, ROPEWAY_WITHIN = 3 };
typedef int (*ropeway_fault)(uintptr_t address, int write, const void *context);

/* Returns the entry point to call instead of the core's. Called once, after preparing; loads nothing. */
typedef ropeway_entry (*ropeway_attach)(ropeway_entry core, ropeway_at_end at_end, ropeway_fault fault);

/* Reports that a forked child called a function. Called in that child, from within the function. */
typedef void (*ropeway_forked)(const char *function);

/* This bit in the line of an interpreter's innermost frame means that the program ignores the result of the call. */
#define ROPEWAY_DROPPED (UINT32_C(1) << 31)

enum { ROPEWAY_DEPTH = 32, ROPEWAY_NO_CALL = ROPEWAY_NUMBERS };

/* The state of a thread. Written only by the thread itself. */
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
	uint32_t ignored; /* not 0: the program asked not to judge this thread */
	uint32_t thread;  /* the system's number of the thread; of an access by a kernel ROPEWAY_KERNEL_THREAD */
} ropeway_call;

#define ROPEWAY_KERNEL_THREAD UINT32_MAX

/* What the caller does about an access. */
enum {
	ROPEWAY_NOT_OURS, /* the program's own fault */
	ROPEWAY_OPEN,     /* the memory is open now */
	ROPEWAY_STEP      /* it is open for one instruction or system call; then request ROPEWAY_STEPPED */
};

typedef struct ropeway_touch {
	uint32_t what, prot;
	uint64_t page, length; /* the opened memory */
	uint64_t delta;        /* the engine's address is address + delta; 0: it has none */
} ropeway_touch;

/*
 * How memory of the program is removed: by free, realloc, munmap, mremap, or a mapping at a fixed address.
 * ROPEWAY_RETURNED: it is a part of a thread's stack whose functions have returned, and the record is of the call
 * that detected it.
 */
enum { ROPEWAY_FREED, ROPEWAY_REALLOCATED, ROPEWAY_UNMAPPED, ROPEWAY_MOVED, ROPEWAY_REPLACED, ROPEWAY_RETURNED };

/* Functions of the checker that the core may call, from any thread. */
typedef struct ropeway_checker {
	/* The memory whose faults are reported by ROPEWAY_TOUCH: pairs of first address and end, sorted and disjoint. */
	void (*spans)(const uint64_t *pairs, size_t n);
	/* Device memory, which the host cannot access: faults there are reported by ROPEWAY_TOUCH too, and remain faults. */
	void (*device)(uint64_t low, uint64_t high);
	/* Registered memory of the program, which ROPEWAY_VANISH reports; and its device addresses. Pairs like those of spans. */
	void (*registered)(const uint64_t *pairs, size_t n);
	void (*aliases)(const uint64_t *pairs, size_t n);
	/* The range of all pinned memory; and whether pages in it have bytes of an allocation. Other pages are never
	 * opened. */
	void (*pinned)(uint64_t low, uint64_t high);
	void (*pages)(uint64_t low, uint64_t high, int there);
	/* The texts of a name in ropeway_call.names. NULL if there is no such name. */
	const char *(*file)(uint32_t name);
	const char *(*name)(uint32_t name);
} ropeway_checker;

#endif
