/*
 * A core in C that does nothing but record what it is asked. Behind it the shim can be run under valgrind and the
 * sanitizers, which do not understand a Go runtime.
 */
#define _GNU_SOURCE
#include "core.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "slots.h"

#define EXPORT __attribute__((visibility("default")))

#ifndef FAKE_TABLE
#define FAKE_TABLE ROPEWAY_TABLE
#endif

/* A thread of the program. It is allocated, so that one that is lost is a leak, and one used too long is seen. */
struct thread {
	uint64_t pthread, id;
	struct fake_call last;
};

static atomic_long live, quiets;
static _Thread_local struct thread *self __attribute__((tls_model("initial-exec")));

static void insist(int condition, const char *what)
{
	if (condition)
		return;
	fprintf(stderr, "the fake core: %s\n", what);
	abort();
}

static uint64_t enter(const uint64_t *slots)
{
	struct thread *t = calloc(1, sizeof *t);

	insist(t != NULL, "no memory");
	insist(!self, "a thread came twice");
	t->pthread = slots[0];
	t->id = slots[1];
	insist(t->pthread == (uint64_t)pthread_self(), "a thread came as another one");
	insist(t->id == (uint64_t)syscall(SYS_gettid), "a thread came with the system's number of another one");
	atomic_fetch_add(&live, 1);
	self = t;
	return (uintptr_t)t;
}

static void leave(struct thread *t)
{
	insist(t == self, "a thread went that was not there");
	free(t);
	self = NULL;
	atomic_fetch_sub(&live, 1);
}

static void record(uint32_t function, struct fake_call *c, const uint64_t *slots)
{
	memset(c, 0, sizeof *c);
	c->function = function;
	c->slots = fake_slots[function];
	for (uint32_t i = 0; i < c->slots; i++)
		c->slot[i] = slots[i];
	for (size_t i = 0; i < sizeof fake_structs / sizeof fake_structs[0]; i++)
		if (fake_structs[i].function == function)
			memcpy(c->bytes[c->structs++], (void *)(uintptr_t)slots[fake_structs[i].slot], fake_structs[i].size);
	if (function == ROPEWAY_aclAppLog)
		snprintf(c->text, sizeof c->text, "%s", (const char *)(uintptr_t)slots[4]);
	if (function == ROPEWAY_aclrtApiInjectionSetFunc || function == ROPEWAY_aclrtApiInjectionGetFunc)
		snprintf(c->text, sizeof c->text, "%s", (const char *)(uintptr_t)slots[0]);
}

EXPORT uint64_t ropeway_core_call(uint32_t function, ropeway_thread thread, uint64_t *slots);
uint64_t ropeway_core_call(uint32_t function, ropeway_thread thread, uint64_t *slots)
{
	switch (function) {
	case ROPEWAY_TABLE_OF_CORE:
		return FAKE_TABLE;
	case ROPEWAY_ENTER:
		return enter(slots);
	case ROPEWAY_LEAVE:
		leave(thread);
		return 0;
	case ROPEWAY_QUIET:
		atomic_fetch_add(&quiets, 1);
		return 0;
	case ROPEWAY_EMPTY:
	case ROPEWAY_KERNELS:
		return 0;
	}
	insist(function < ROPEWAY_FUNCTIONS, "a function that does not exist");
	insist(thread && thread == self, "a call of a thread that did not come");
	record(function, &self->last, slots);
	return FAKE_RESULT(function);
}

EXPORT const struct fake_call *fake_last(void);
const struct fake_call *fake_last(void)
{
	return self ? &self->last : NULL;
}

EXPORT long fake_live(void);
long fake_live(void)
{
	return atomic_load(&live);
}

EXPORT long fake_quiets(void);
long fake_quiets(void)
{
	return atomic_load(&quiets);
}
