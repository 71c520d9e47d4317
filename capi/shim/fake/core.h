/* What a test sees of the fake core: it records every call of the thread that asks. */
#ifndef ROPEWAY_FAKE_CORE_H
#define ROPEWAY_FAKE_CORE_H

#include "../entry.h"

enum { FAKE_SLOTS = 16, FAKE_STRUCTS = 2, FAKE_BYTES = 64 };

struct fake_call {
	uint32_t function;
	uint32_t slots;
	uint64_t slot[FAKE_SLOTS];
	uint32_t structs;
	unsigned char bytes[FAKE_STRUCTS][FAKE_BYTES]; /* of structs that were passed by value, in their order */
	char text[32];                                 /* that aclAppLog made, or the name of a function to hook */
};

/* What the fake core returns: a number with all bits in use. */
#define FAKE_RESULT(function) (((uint64_t)(function) + 1) * 0x9e3779b97f4a7c15u)

/* The functions of the fake core, which is opened, not linked. */
typedef const struct fake_call *(*fake_last_function)(void); /* "fake_last": the last call of this thread */
typedef long (*fake_count_function)(void); /* "fake_live": threads that came and did not go; "fake_quiets": ends of the process */

#endif
