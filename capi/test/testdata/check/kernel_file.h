/* For programs whose kernels are in a shared object: the part of their source in #ifdef KERNELS, compiled by itself. */
#ifndef KERNEL_FILE_H
#define KERNEL_FILE_H

#include "program.h"

/* kernel_of loads the file that the program is given as its argument, and finds a kernel in it. */
static inline aclrtFuncHandle kernel_of(char **argv, const char *name, aclrtBinHandle *binary)
{
	aclrtFuncHandle function;
	ACL(aclrtBinaryLoadFromFile(argv[1], NULL, binary));
	ACL(aclrtBinaryGetFunction(*binary, name, &function));
	return function;
}

/* device_words is device memory with words of the host in it. */
static inline void *device_words(const void *words, size_t bytes)
{
	void *device;
	ACL(aclrtMalloc(&device, bytes, ACL_MEM_MALLOC_HUGE_FIRST));
	ACL(aclrtMemcpy(device, bytes, words, bytes, ACL_MEMCPY_HOST_TO_DEVICE));
	return device;
}

#endif
