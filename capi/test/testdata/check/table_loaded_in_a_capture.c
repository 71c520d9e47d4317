/*
 * The table is loaded when it is first needed, by a synchronous copy; the first time is in the capture.
 *
 * finds: broken-capture (error)
 * offence: called aclrtMemcpy in load at OFFENCE
 * other: began aclmdlRICaptureBegin in main at BEGAN
 */
#include "program.h"

enum { SIZE = 4096 };

static char values[SIZE];

static void load(void *table)
{
	aclError code = aclrtMemcpy(table, SIZE, values, SIZE, ACL_MEMCPY_HOST_TO_DEVICE); // OFFENCE
	if (code != ACL_SUCCESS)
		fprintf(stderr, "the table is not there: %d\n", (int)code);
}

int main(void)
{
	aclrtStream stream = start();
	aclmdlRI step;
	void *table, *out;
	ACL(aclrtMalloc(&table, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
	ACL(aclrtMallocHost(&out, SIZE));
	ACL(aclrtMemset(table, SIZE, 0, SIZE));
#ifdef FIXED
	load(table);
#endif

	ACL(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL)); // BEGAN
#ifndef FIXED
	load(table);
#endif
	ACL(aclrtMemcpyAsync(out, SIZE, table, SIZE, ACL_MEMCPY_DEVICE_TO_HOST, stream));
	ACL(aclmdlRICaptureEnd(stream, &step));

	ACL(aclmdlRIExecuteAsync(step, stream));
	ACL(aclrtSynchronizeStream(stream));
	ACL(aclmdlRIDestroy(step));
	ACL(aclrtFreeHost(out));
	ACL(aclrtFree(table));
	finish(stream);
	return 0;
}
