/*
 * What the programs of this directory share. The calls that a finding is about stand in the programs themselves, so that
 * its stacks name them.
 */
#ifndef PROGRAM_H
#define PROGRAM_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <acl/acl.h>

/* ACL(call) ends the program with 1 unless the call succeeded. */
#define ACL(call) ok((call), #call, __LINE__)

static inline void ok(aclError code, const char *call, int line)
{
	if (code == ACL_SUCCESS)
		return;
	const char *why = aclGetRecentErrMsg();
	fprintf(stderr, "line %d: %s: error %d\n%s\n", line, call, (int)code, why ? why : "");
	exit(1);
}

/* REFUSED(call) ends the program with 1 if the call succeeded: it is wrong, and most programs do not look at its code. */
#define REFUSED(call) refused((call), #call, __LINE__)

static inline void refused(aclError code, const char *call, int line)
{
	if (code != ACL_SUCCESS)
		return;
	fprintf(stderr, "line %d: %s: succeeded\n", line, call);
	exit(1);
}

/* start makes device 0 current and returns a stream of it; finish releases both. */
static inline aclrtStream start(void)
{
	aclrtStream stream;
	ACL(aclInit(NULL));
	ACL(aclrtSetDevice(0));
	ACL(aclrtCreateStream(&stream));
	return stream;
}

static inline void finish(aclrtStream stream)
{
	ACL(aclrtDestroyStream(stream));
	ACL(aclrtResetDevice(0));
	ACL(aclFinalize());
}

#endif
