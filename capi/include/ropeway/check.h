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
extern void ropeway_checking_tell(int change) __attribute__((weak));
extern char *ropeway_checking_news(void) __attribute__((weak));

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

/* Between these two the program prints findings itself, as ropeway/gtest.h does: `ropeway check` counts them and does not print them. */
static inline void ropeway_check_tell_begin(void)
{
	if (ropeway_checking_tell)
		ropeway_checking_tell(1);
}

static inline void ropeway_check_tell_end(void)
{
	if (ropeway_checking_tell)
		ropeway_checking_tell(-1);
}

/* The text of what was found since the last call, again or for the first time, for free(); NULL if nothing was. Notes do not count. */
static inline char *ropeway_check_news(void)
{
	return ropeway_checking_news ? ropeway_checking_news() : NULL;
}

#ifdef __cplusplus
}
#endif

#endif
