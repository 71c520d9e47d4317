/*
 * The group of kernels that the program wants to update later is begun and not ended: the capture is lost.
 *
 * finds: broken-capture (error)
 * offence: called aclmdlRICaptureEnd in main at OFFENCE
 * other: began aclmdlRICaptureBegin in main at BEGAN
 */
#include "program.h"

enum { SIZE = 4096 };

int main(void)
{
	aclrtStream stream = start();
	aclmdlRI step;
	void *values;
	ACL(aclrtMalloc(&values, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));

	ACL(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL)); // BEGAN
	ACL(aclrtMemsetAsync(values, SIZE, 0, SIZE, stream));
	ACL(aclmdlRICaptureTaskGrpBegin(stream));
#ifdef FIXED
	aclrtTaskGrp group;
	ACL(aclmdlRICaptureTaskGrpEnd(stream, &group));
#endif
	aclError code = aclmdlRICaptureEnd(stream, &step); // OFFENCE
	if (code != ACL_SUCCESS) {
		fprintf(stderr, "there is no model: %d\n", (int)code);
	} else {
		ACL(aclmdlRIExecuteAsync(step, stream));
		ACL(aclrtSynchronizeStream(stream));
		ACL(aclmdlRIDestroy(step));
	}

	ACL(aclrtFree(values));
	finish(stream);
	return 0;
}
