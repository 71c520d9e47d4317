/*
 * Floating-point state around a call. The core uses floating point (for times, and in the Go runtime's garbage
 * collector): it must neither change the program's exception flags nor run with the program's rounding and traps.
 */
#ifndef ROPEWAY_FLOATS_H
#define ROPEWAY_FLOATS_H

#if defined(__x86_64__)

#include <xmmintrin.h>

typedef unsigned int ropeway_floats;

#define FLAGS 0x3fu     /* sticky exception flags of MXCSR */
#define DEFAULT 0x1f80u /* round to nearest, every exception masked */

static inline ropeway_floats floats_enter(void)
{
	ropeway_floats program = _mm_getcsr();
	if (__builtin_expect((program & ~FLAGS) != DEFAULT, 0))
		_mm_setcsr(DEFAULT);
	return program;
}

static inline void floats_leave(ropeway_floats program)
{
	if (__builtin_expect(_mm_getcsr() != program, 0))
		_mm_setcsr(program);
}

#undef FLAGS
#undef DEFAULT

#elif defined(__aarch64__)

typedef struct {
	uint64_t control, status;
} ropeway_floats;

static inline ropeway_floats floats_enter(void)
{
	ropeway_floats program;
	__asm__ volatile("mrs %0, fpcr\n\tmrs %1, fpsr" : "=r"(program.control), "=r"(program.status));
	if (__builtin_expect(program.control != 0, 0))
		__asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)0));
	return program;
}

static inline void floats_leave(ropeway_floats program)
{
	uint64_t control, status;
	__asm__ volatile("mrs %0, fpcr\n\tmrs %1, fpsr" : "=r"(control), "=r"(status));
	if (__builtin_expect(control != program.control, 0))
		__asm__ volatile("msr fpcr, %0" : : "r"(program.control));
	if (__builtin_expect(status != program.status, 0))
		__asm__ volatile("msr fpsr, %0" : : "r"(program.status));
}

#else
#error "ropeway is built for x86_64 and aarch64"
#endif

#endif
