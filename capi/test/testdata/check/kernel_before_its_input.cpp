/*
 * Input is uploaded on one stream and used by a kernel on another, with no event between them.
 *
 * finds: stream-race (error)
 * offence: submitted aclrtLaunchKernelWithHostArgs in main at OFFENCE on stream 1, task 1
 * other: submitted aclrtMemcpyAsync in main at SUBMIT on stream 2, task 1
 * other: allocated aclrtMalloc in main at ALLOCATED
 * bytes: 0+8192 of device 8192
 */
#include "kernel.h"

enum { SIZE = 8192 };

int main()
{
	aclrtStream compute = start(), upload;
	ACL(aclrtCreateStream(&upload));
	aclrtBinHandle binary;
	aclrtFuncHandle kernel = load_kernel(&binary);
	void *host, *input, *sum;
	ACL(aclrtMallocHost(&host, SIZE));
	memset(host, 1, SIZE);
	ACL(aclrtMalloc(&input, SIZE, ACL_MEM_MALLOC_HUGE_FIRST)); // ALLOCATED
	ACL(aclrtMalloc(&sum, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
	ACL(aclrtMemset(input, SIZE, 0, SIZE));
	ACL(aclrtMemset(sum, SIZE, 0, SIZE));

	ACL(aclrtMemcpyAsync(input, SIZE, host, SIZE, ACL_MEMCPY_HOST_TO_DEVICE, upload)); // SUBMIT
#ifdef FIXED
	ACL(aclrtSynchronizeStream(upload));
#endif
	add args = {static_cast<unsigned char *>(sum), static_cast<unsigned char *>(input), SIZE};
	ACL(aclrtLaunchKernelWithHostArgs(kernel, 8, compute, nullptr, &args, sizeof args, nullptr, 0)); // OFFENCE

	ACL(aclrtSynchronizeStream(upload));
	ACL(aclrtSynchronizeStream(compute));
	ACL(aclrtFree(sum));
	ACL(aclrtFree(input));
	ACL(aclrtFreeHost(host));
	ACL(aclrtBinaryUnLoad(binary));
	ACL(aclrtDestroyStream(upload));
	finish(compute);
	return 0;
}
