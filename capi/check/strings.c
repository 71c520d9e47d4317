/*
 * rep movs and rep stos. With the trap flag they stop after every element, so a memcpy over a page that is partly in flight
 * would take seconds. Instead the part in opened memory is carried out here, and the instruction continues after it.
 * The other side of a movs may be closed too: then the copy here faults like any other access.
 */
#define _GNU_SOURCE
#include "checker.h"

#if defined(__x86_64__)

enum { DOWNWARDS = 0x400, LONGEST = 15 };

struct repeat check_repeat(const ucontext_t *ctx)
{
	const greg_t *r = ctx->uc_mcontext.gregs;
	const unsigned char *start = (const unsigned char *)(uintptr_t)r[REG_RIP], *p = start;
	struct repeat none = {0}, found = {.size = 4};
	int repeated = 0;
	if (r[REG_EFL] & DOWNWARDS)
		return none;
	for (;; p++) {
		if (*p == 0xf2 || *p == 0xf3)
			repeated = 1;
		else if (*p == 0x66)
			found.size = 2;
		else
			break;
		if (p - start == LONGEST)
			return none;
	}
	if ((*p & 0xf0) == 0x40) {
		if (*p & 8)
			found.size = 8;
		p++;
	}
	if (!repeated || (*p != 0xa4 && *p != 0xa5 && *p != 0xaa && *p != 0xab))
		return none;
	if (!(*p & 1))
		found.size = 1;
	found.moves = *p < 0xa6;
	found.length = (size_t)(p + 1 - start);
	found.from = (uintptr_t)r[REG_RSI];
	found.to = (uintptr_t)r[REG_RDI];
	found.left = (size_t)r[REG_RCX];
	return found;
}

/* Writes n elements, taking them from `from` if that is not NULL. Each is one access, in order, as the instruction does. */
#define ELEMENTS(type) \
	for (size_t i = 0; i < n; i++) \
		((volatile type *)to)[i] = from ? ((volatile const type *)from)[i] : (type)value

static void elements(uintptr_t to, uintptr_t from, uint64_t value, size_t size, size_t n)
{
	switch (size) {
	case 1:
		ELEMENTS(uint8_t);
		return;
	case 2:
		ELEMENTS(uint16_t);
		return;
	case 4:
		ELEMENTS(uint32_t);
		return;
	case 8:
		ELEMENTS(uint64_t);
		return;
	}
}

void check_repeat_part(const struct repeat *r, uintptr_t touched, const ropeway_touch *opened, ucontext_t *ctx)
{
	greg_t *g = ctx->uc_mcontext.gregs;
	/* The side that faulted is the one whose next element contains the address. */
	uintptr_t at = r->moves && touched - r->from < r->size ? r->from : r->to;
	uintptr_t end = opened->page + opened->length;
	size_t n = end > at ? (end - at) / r->size : 0;
	if (n == 0)
		n = 1; /* it extends into the following memory, which may be open */
	if (n > r->left)
		n = r->left;
	elements(r->to, r->moves ? r->from : 0, (uint64_t)g[REG_RAX], r->size, n);
	g[REG_RDI] += (greg_t)(n * r->size);
	if (r->moves)
		g[REG_RSI] += (greg_t)(n * r->size);
	g[REG_RCX] -= (greg_t)n;
	if (!g[REG_RCX])
		g[REG_RIP] += (greg_t)r->length;
}

#else

struct repeat check_repeat(const ucontext_t *ctx)
{
	(void)ctx;
	return (struct repeat){0};
}

void check_repeat_part(const struct repeat *r, uintptr_t touched, const ropeway_touch *opened, ucontext_t *ctx)
{
	(void)r;
	(void)touched;
	(void)opened;
	(void)ctx;
}

#endif
