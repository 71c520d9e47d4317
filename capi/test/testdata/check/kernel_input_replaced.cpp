/*
 * The input of a queued kernel, which says what it reads, is replaced by that of the next step with aclrtMemcpy.
 *
 * finds: host-write-in-flight (error)
 * offence: written aclrtMemcpy in next_input at OFFENCE
 * other: submitted aclrtLaunchKernelWithHostArgs in main at SUBMIT on stream 1, task 1
 * other: allocated aclrtMalloc in main at ALLOCATED
 * bytes: 0+4096 of device 8192
 */
#include "kernel.h"

enum { SIZE = 8192, STEP = 4096 };

static void next_input(void *input, const char *text)
{
	ACL(aclrtMemcpy(input, SIZE, text, STEP, ACL_MEMCPY_HOST_TO_DEVICE)); // OFFENCE
}

int main()
{
	aclrtStream stream = start();
	aclrtBinHandle binary;
	aclrtFuncHandle kernel = load_kernel(&binary);
	char text[STEP] = {1};
	void *input, *sum;
	ACL(aclrtMalloc(&input, SIZE, ACL_MEM_MALLOC_HUGE_FIRST)); // ALLOCATED
	ACL(aclrtMalloc(&sum, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
	ACL(aclrtMemset(input, SIZE, 1, SIZE));
	ACL(aclrtMemset(sum, SIZE, 0, SIZE));

	add args = {static_cast<unsigned char *>(sum), static_cast<unsigned char *>(input), SIZE};
	ACL(aclrtLaunchKernelWithHostArgs(kernel, 8, stream, nullptr, &args, sizeof args, nullptr, 0)); // SUBMIT
#ifdef FIXED
	ACL(aclrtSynchronizeStream(stream));
#endif
	next_input(input, text);

	ACL(aclrtSynchronizeStream(stream));
	ACL(aclrtFree(sum));
	ACL(aclrtFree(input));
	ACL(aclrtBinaryUnLoad(binary));
	finish(stream);
	return 0;
}
