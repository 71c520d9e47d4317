/* What every example needs: to stop at the first call that fails, and to say why. */
#ifndef CHECK_H
#define CHECK_H

#include <stdio.h>
#include <stdlib.h>

#include <acl/acl.h>

/*
 * ACL(call) goes on if the call succeeded. Otherwise it prints the call, its code and the library's own words, and ends
 * the program with 1. Nothing is freed then: the system does that when the process ends.
 */
#define ACL(call) check((call), #call, __FILE__, __LINE__)

static inline void check(aclError code, const char *call, const char *file, int line)
{
	if (code == ACL_SUCCESS)
		return;
	const char *why = aclGetRecentErrMsg(); /* of this thread; NULL if there is nothing more to say */
	fprintf(stderr, "%s:%d: %s: error %d\n%s\n", file, line, call, code, why ? why : "");
	exit(EXIT_FAILURE);
}

/* Ends the program unless the condition holds. */
static inline void expect(int holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "wrong: %s\n", what);
	exit(EXIT_FAILURE);
}

#endif
