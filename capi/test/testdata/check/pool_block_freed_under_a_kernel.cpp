/*
 * A block of a pool is given back on another stream than that of the kernel that still works on it.
 *
 * finds: free-in-flight (error)
 * offence: freed aclrtMemPoolFreeAsync in main at OFFENCE on stream 2, task 1
 * other: submitted aclrtLaunchKernelWithHostArgs in main at SUBMIT on stream 1, task 2
 * other: allocated aclrtMemPoolMallocAsync in main at ALLOCATED
 * other: freed aclrtMemPoolFreeAsync in main at OFFENCE
 * bytes: 0+2097152 of device 2097152
 */
#include "kernel.h"
#include <acl/acl_rt_memory_soma.h>

enum { BLOCK = 2 << 20 };

int main()
{
	aclrtStream compute = start(), other;
	ACL(aclrtCreateStream(&other));
	aclrtBinHandle binary;
	aclrtFuncHandle kernel = load_kernel(&binary);
	aclrtMemPool pool;
	aclrtMemPoolProps props = {};
	void *block;
	props.location.type = ACL_MEM_LOCATION_TYPE_DEVICE;
	ACL(aclrtMemPoolCreate(&pool, &props));
	ACL(aclrtMemPoolMallocAsync(&block, BLOCK, pool, compute)); // ALLOCATED
	ACL(aclrtMemsetAsync(block, BLOCK, 1, BLOCK, compute));
	ACL(aclrtSynchronizeStream(compute));

	unsigned char *half = static_cast<unsigned char *>(block) + BLOCK / 2;
	add args = {half, static_cast<unsigned char *>(block), BLOCK / 2};
	ACL(aclrtLaunchKernelWithHostArgs(kernel, 8, compute, nullptr, &args, sizeof args, nullptr, 0)); // SUBMIT
#ifdef FIXED
	ACL(aclrtSynchronizeStream(compute));
#endif
	ACL(aclrtMemPoolFreeAsync(block, other)); // OFFENCE

	ACL(aclrtSynchronizeStream(other));
	ACL(aclrtSynchronizeStream(compute));
	ACL(aclrtMemPoolDestroy(pool));
	ACL(aclrtBinaryUnLoad(binary));
	ACL(aclrtDestroyStream(other));
	finish(compute);
	return 0;
}
