/*
 * ropeway/check.h: what a program can tell the checker (`ropeway check`), and ask it.
 *
 * Everything here does nothing, and answers 0, when the program is not checked, and when its AscendCL is not ropeway's: the
 * functions behind are weak, so one binary runs everywhere. Nothing needs to be linked besides libascendcl.so.
 */
#ifndef ROPEWAY_CHECK_H
#define ROPEWAY_CHECK_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Of libascendcl.so; use the functions below. */
extern int ropeway_checking_enabled(void) __attribute__((weak));
extern int ropeway_checking_in_flight(const void *address, size_t size) __attribute__((weak));
extern void ropeway_checking_complete(const void *address, size_t size) __attribute__((weak));
extern void ropeway_checking_ignore(int change) __attribute__((weak));
extern uint64_t ropeway_checking_findings(void) __attribute__((weak));

/* Whether the program is being checked. */
static inline int ropeway_check_enabled(void)
{
	return ropeway_checking_enabled ? ropeway_checking_enabled() : 0;
}

/* Whether work on some of these bytes is not known to be complete: touching them now could be a finding. */
static inline int ropeway_check_in_flight(const void *address, size_t size)
{
	return ropeway_checking_in_flight ? ropeway_checking_in_flight(address, size) : 0;
}

/*
 * Reports an order that the checker cannot see: the program knows by other means that the work on these
 * bytes is complete (a flag that a host function set, a message of another process). What has not run yet stays in flight.
 */
static inline void ropeway_check_complete(const void *address, size_t size)
{
	if (ropeway_checking_complete)
		ropeway_checking_complete(address, size);
}

/* Between these two, what the calling thread does is not judged. They may be nested. */
static inline void ropeway_check_ignore_begin(void)
{
	if (ropeway_checking_ignore)
		ropeway_checking_ignore(1);
}

static inline void ropeway_check_ignore_end(void)
{
	if (ropeway_checking_ignore)
		ropeway_checking_ignore(-1);
}

/* How many findings there are so far. Notes do not count. */
static inline uint64_t ropeway_check_findings(void)
{
	return ropeway_checking_findings ? ropeway_checking_findings() : 0;
}

#ifdef __cplusplus
}
#endif

#endif
