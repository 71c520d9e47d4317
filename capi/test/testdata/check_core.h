/* What a test sees of the small checker in check_core.c. */
#ifndef CHECK_CORE_H
#define CHECK_CORE_H

#include "../../shim/entry.h"

#define WINDOW_AT 0x100000000000
enum { WINDOW = 16 << 20 };

struct check_seen {
	uint64_t touches, steps, findings;
	uint64_t address, length, instruction; /* of the last touch */
	int write;
	ropeway_call access; /* its record */
	ropeway_call call;   /* the record in the last call */
};

typedef struct check_seen *(*check_seen_function)(void); /* "check_seen" */

#endif
