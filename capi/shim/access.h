/* Whether an access that faulted was a write. Include it with _GNU_SOURCE. */
#ifndef ROPEWAY_SHIM_ACCESS_H
#define ROPEWAY_SHIM_ACCESS_H

#include <stdint.h>
#include <string.h>
#include <ucontext.h>

#if defined(__x86_64__)

static inline int ropeway_is_write(const ucontext_t *c)
{
	enum { WRITES = 2 };
	return (c->uc_mcontext.gregs[REG_ERR] & WRITES) != 0;
}

#elif defined(__aarch64__)

/* From the instruction itself: its encoding distinguishes loads from stores. Atomic ones do both. */
static inline int ropeway_stores(const ucontext_t *c)
{
	uint32_t i = *(const uint32_t *)c->uc_mcontext.pc;
	if ((i & 0x0a000000) != 0x08000000)
		return 1;
	if ((i & 0x3b200c00) == 0x38200000)
		return 1; /* a load that adds, swaps or the like */
	if ((i & 0x3a000000) == 0x38000000 && i & 0x00800000)
		return (i & 0x04c00000) == 0x04800000; /* sign-extending accesses are loads; 16-byte vectors are loaded and stored */
	return !(i & 0x00400000);
}

/* The kernel provides the syndrome of the fault in the records after the registers; emulators do not always. */
static inline int ropeway_is_write(const ucontext_t *c)
{
	const unsigned char *p = (const unsigned char *)c->uc_mcontext.__reserved;
	const unsigned char *end = p + sizeof c->uc_mcontext.__reserved;
	enum { ESR = 0x45535201, WRITES = 1 << 6, CACHE = 1 << 8 };
	while (p + 16 <= end) {
		uint32_t magic, size;
		uint64_t syndrome;
		memcpy(&magic, p, 4);
		memcpy(&size, p + 4, 4);
		if (!magic || size < 8)
			break;
		memcpy(&syndrome, p + 8, 8);
		if (magic == ESR)
			return (syndrome & WRITES) && !(syndrome & CACHE);
		p += size;
	}
	return ropeway_stores(c);
}

#else

static inline int ropeway_is_write(const ucontext_t *c)
{
	(void)c;
	return 1; /* not known */
}

#endif

#endif
