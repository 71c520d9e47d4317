/* One call of every function (calls.c, generated), and what a test program does after each. */
#ifndef ROPEWAY_FAKE_CALLS_H
#define ROPEWAY_FAKE_CALLS_H

#include "core.h"

/* By the number of a function: calls it, and whether it returns an aclError. */
struct fake_send {
	void (*send)(void);
	int returns_code;
};
extern const struct fake_send fake_calls[ROPEWAY_FUNCTIONS];

/* Slots that are an address nobody can foretell: of a struct that fake_fill filled, of a text. */
#define FAKE_STRUCT 0xffffffffffffff01u
#define FAKE_TEXT 0xffffffffffffff02u

/* The test program has these: fills the struct that is argument i; compares what was sent and returned. */
void fake_fill(void *bytes, unsigned long size, int argument);
void fake_arrived(uint32_t function, const uint64_t *want, uint32_t slots, const void *got, unsigned long size);

#endif
