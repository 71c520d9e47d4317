/*
 * A function registers a variable of its own, queues a copy from it, and returns.
 *
 * finds: free-in-flight (error)
 * offence: found aclrtSynchronizeStream in main at OFFENCE
 * other: submitted aclrtMemcpyAsync in send at SUBMIT on stream 1, task 1
 * other: allocated aclrtHostRegisterV2 in send at ALLOCATED
 * bytes: 0+1024 of registered 1024
 */
#include "program.h"

enum { SIZE = 1024 };

static uintptr_t sent;

__attribute__((noinline)) static void send(void *device, aclrtStream stream)
{
	_Alignas(64) char header[SIZE];
	memset(header, 1, SIZE);
	ACL(aclrtHostRegisterV2(header, SIZE, ACL_HOST_REG_PINNED)); // ALLOCATED
	ACL(aclrtMemcpyAsync(device, SIZE, header, SIZE, ACL_MEMCPY_HOST_TO_DEVICE, stream)); // SUBMIT
#ifdef FIXED
	ACL(aclrtSynchronizeStream(stream));
	ACL(aclrtHostUnregister(header));
#endif
	sent = (uintptr_t)header;
}

__attribute__((noinline)) static void other_work(void)
{
	volatile char scratch[4 * SIZE];
	for (size_t i = 0; i < sizeof scratch; i++)
		scratch[i] = 9;
}

int main(void)
{
	aclrtStream stream = start();
	_Alignas(64) char beside[SIZE] = {0}; /* is there as long as main is */
	void *device;
	ACL(aclrtMalloc(&device, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
	ACL(aclrtHostRegisterV2(beside, SIZE, ACL_HOST_REG_PINNED));
	ACL(aclrtMemcpyAsync(device, SIZE, beside, SIZE, ACL_MEMCPY_HOST_TO_DEVICE, NULL));
	ACL(aclrtSynchronizeStream(NULL));

	send(device, stream);
	other_work();
	ACL(aclrtSynchronizeStream(stream)); // OFFENCE
#ifndef FIXED
	ACL(aclrtHostUnregister((void *)sent));
#endif
	ACL(aclrtHostUnregister(beside));
	ACL(aclrtFree(device));
	finish(stream);
	return 0;
}
