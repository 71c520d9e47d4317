/*
 * Rows of 100 bytes are copied one after the other, in a model that also clears their destination. The copies become one
 * operation when the model is executed, but the call that was captured is to blame.
 *
 * finds: misaligned (warning)
 * offence: captured aclrtMemcpyAsync in main at OFFENCE
 * bytes: 100+100 of device 4096
 * count: 3
 */
#include "program.h"

enum { SIZE = 4096, BYTES = 100, ROWS = 4 };

#ifdef FIXED
enum { ROW = 128 };
#else
enum { ROW = BYTES };
#endif

int main(void)
{
	aclrtStream stream = start();
	aclmdlRI step;
	char *rows, *table;
	ACL(aclrtMallocHost((void **)&rows, SIZE));
	ACL(aclrtMalloc((void **)&table, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
	memset(rows, 1, SIZE);

	ACL(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
	ACL(aclrtMemsetAsync(table, SIZE, 0, SIZE, stream));
	for (int i = 0; i < ROWS; i++)
		ACL(aclrtMemcpyAsync(table + i * ROW, BYTES, rows + i * ROW, BYTES, ACL_MEMCPY_HOST_TO_DEVICE, stream)); // OFFENCE
	ACL(aclmdlRICaptureEnd(stream, &step));

	ACL(aclmdlRIExecuteAsync(step, stream));
	ACL(aclrtSynchronizeStream(stream));
	ACL(aclmdlRIDestroy(step));
	ACL(aclrtFreeHost(rows));
	ACL(aclrtFree(table));
	finish(stream);
	return 0;
}
