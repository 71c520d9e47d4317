/*
 * A result is saved by a callback for which the stream does not wait, and the next result is copied into the same buffer.
 *
 * finds: host-read-in-flight (error)
 * offence: read in save at OFFENCE
 * other: submitted aclrtMemcpyAsync in main at SUBMIT on stream 1, task 3
 * other: allocated aclrtMallocHost in main at ALLOCATED
 * bytes: 0+1 of pinned 4096
 */
#include "program.h"

#include <atomic>
#include <pthread.h>
#include <unistd.h>

enum { SIZE = 4096 };

static std::atomic<bool> ready{false}, served{false}, ended{false};

static void save(void *result)
{
	printf("%d\n", *static_cast<volatile char *>(result)); // OFFENCE
	served = true;
}

static void *serve(void *)
{
	ACL(aclrtSetDevice(0));
	ready = true;
	while (!ended)
		aclrtProcessReport(10);
	return nullptr;
}

int main()
{
	aclrtStream stream = start();
	pthread_t thread;
	void *result, *device;
	ACL(aclrtMallocHost(&result, SIZE)); // ALLOCATED
	ACL(aclrtMalloc(&device, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
	ACL(aclrtMemset(device, SIZE, 7, SIZE));
	if (pthread_create(&thread, nullptr, serve, nullptr))
		return 1;
	while (!ready)
		usleep(1000);
	ACL(aclrtSubscribeReport(thread, stream));

	ACL(aclrtMemcpyAsync(result, SIZE, device, SIZE, ACL_MEMCPY_DEVICE_TO_HOST, stream));
	ACL(aclrtLaunchCallback(save, result, ACL_CALLBACK_NO_BLOCK, stream));
#ifdef FIXED
	ACL(aclrtSynchronizeStream(stream));
	while (!served)
		usleep(1000);
#endif
	ACL(aclrtMemcpyAsync(result, SIZE, device, SIZE, ACL_MEMCPY_DEVICE_TO_HOST, stream)); // SUBMIT
	ACL(aclrtSynchronizeStream(stream));
	while (!served)
		usleep(1000);

	ACL(aclrtUnSubscribeReport(thread, stream));
	ended = true;
	pthread_join(thread, nullptr);
	ACL(aclrtFree(device));
	ACL(aclrtFreeHost(result));
	finish(stream);
	return 0;
}
