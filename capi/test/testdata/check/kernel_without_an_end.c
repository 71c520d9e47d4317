/*
 * A kernel waits for a word that nothing writes. Its time is up after a second, and the program does not look at what the synchronisation
 * returned.
 *
 * finds: api-error (warning)
 * offence: called aclrtSynchronizeStream in main at OFFENCE
 * other: submitted aclrtLaunchKernelWithHostArgs in main at SUBMIT on stream 1, task 1
 */
#ifdef KERNELS
#include <ropeway/kernel.h>

void wait_for(const volatile uint32_t *ready)
{
	while (!*ready)
		;
}
#else
#include "kernel_file.h"

int main(int argc, char **argv)
{
	(void)argc;
	aclrtStream stream = start();
	aclrtBinHandle binary;
	aclrtFuncHandle wait = kernel_of(argv, "wait_for", &binary);
#ifdef FIXED
	void *ready = device_words("\1\0\0", 4);
#else
	void *ready = device_words("\0\0\0", 4);
#endif
	aclrtLaunchKernelAttr second = {.id = ACL_RT_LAUNCH_KERNEL_ATTR_TIMEOUT, .value.timeout = 1};
	aclrtLaunchKernelCfg config = {&second, 1};
	ACL(aclrtLaunchKernelWithHostArgs(wait, 1, stream, &config, &ready, sizeof ready, NULL, 0)); // SUBMIT
	aclrtSynchronizeStream(stream); // OFFENCE
	ACL(aclrtFree(ready));
	ACL(aclrtBinaryUnLoad(binary));
	finish(stream);
	return 0;
}
#endif
