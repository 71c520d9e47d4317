/*
 * The border between the shim (libascendcl.so, C) and the core (libropeway_core.so, Go).
 *
 * The core exports one function, the door. Functions are numbered (numbers.h), arguments are slots of 64 bits in the
 * order of the prototype: pointers and handles as addresses, integers extended by their sign, a float by its bits, a
 * struct by its address. The result is a slot too. So neither side knows how the other lays out its types.
 */
#ifndef ROPEWAY_DOOR_H
#define ROPEWAY_DOOR_H

#include <stdint.h>

#include "numbers.h"

#define ROPEWAY_CORE "libropeway_core.so"
#define ROPEWAY_DOOR "ropeway_core_call"
#define ROPEWAY_ORDER "ropeway_order"

/* A thread of the program, as the core knows it. NULL where the core could not be opened. */
typedef void *ropeway_thread;

typedef uint64_t (*ropeway_door)(uint32_t function, ropeway_thread thread, uint64_t *slots);

/* What the shim itself asks of the core. */
enum {
	/* () -> ROPEWAY_TABLE of the core. Asked first. */
	ROPEWAY_TABLE_OF_CORE = ROPEWAY_FUNCTIONS,
	/* (pthread id, thread id of the system) -> ropeway_thread. Asked by each thread before its first call. */
	ROPEWAY_ENTER,
	/* () -> 0. The thread ends. */
	ROPEWAY_LEAVE,
	/* () -> 0, once no copy is running. Asked when the process ends. */
	ROPEWAY_QUIET,
	/* (what, handle, milliseconds, int32_t *over) -> aclError. Waits for a while; time that ran out is no error. */
	ROPEWAY_WAIT,
	/* () -> 0. Does nothing: what a call into the core costs. */
	ROPEWAY_EMPTY,
	ROPEWAY_NUMBERS
};

/* What ROPEWAY_WAIT waits for: what the function without a timeout would. */
enum { ROPEWAY_WAIT_STREAM, ROPEWAY_WAIT_EVENT, ROPEWAY_WAIT_DEVICE, ROPEWAY_WAIT_REPORT };

#endif
