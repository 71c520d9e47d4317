/* exit_kernel MODE BINARY: ends of a program while a kernel runs. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <acl/acl.h>

#include "check.h"

enum { size = 1 << 20 };

static aclrtStream stream;
static aclrtContext context;
static void *memory, *buffer;
static atomic_int known;

static void launch(aclrtBinHandle binary, const char *name, uint64_t milliseconds)
{
	aclrtFuncHandle f;
	struct {
		void *word;
		uint64_t milliseconds;
	} args = {memory, milliseconds};
	OK(aclrtBinaryGetFunction(binary, name, &f));
	OK(aclrtLaunchKernelWithHostArgs(f, 2, stream, NULL, &args, sizeof args, NULL, 0));
}

/* A copy that is queued after the kernel must not run any more. */
static void take_buffer(void)
{
	CHECK(munmap(buffer, size) == 0);
}

static void *stays(void *unused)
{
	OK(aclrtSetCurrentContext(context));
	known = 1;
	for (;;)
		pause();
	return unused;
}

/* What main has queued is done, also if its thread has ended long before that. */
static void *waits(void *unused)
{
	uint32_t word = 0;
	OK(aclrtSetCurrentContext(context));
	known = 1;
	OK(aclrtSynchronizeStream(stream));
	OK(aclrtMemcpy(&word, sizeof word, memory, sizeof word, ACL_MEMCPY_DEVICE_TO_HOST));
	CHECK(word == 7);
	exit(0);
	return unused;
}

int main(int argc, char **argv)
{
	aclrtBinHandle binary;
	pthread_t thread;
	void *ignored;
	CHECK(argc == 3);
	OK(aclrtSetDevice(0));
	OK(aclrtGetCurrentContext(&context));
	OK(aclrtCreateStream(&stream));
	OK(aclrtMalloc(&memory, size, ACL_MEM_MALLOC_HUGE_FIRST));
	OK(aclrtBinaryLoadFromFile(argv[2], NULL, &binary));
	if (!strcmp(argv[1], "ends")) {
		launch(binary, "lasts", 300);
		return 0;
	}
	if (!strcmp(argv[1], "main_leaves")) {
		launch(binary, "lasts", 3500);
		CHECK(!pthread_create(&thread, NULL, waits, NULL));
		while (!known)
			usleep(1000);
		pthread_exit(NULL);
	}
	buffer = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(buffer != MAP_FAILED);
	OK(aclrtHostRegister(buffer, size, ACL_HOST_REGISTER_MAPPED, &ignored)); /* else the copy waits for the kernel */
	atexit(take_buffer);
	launch(binary, "endless", 0);
	OK(aclrtMemcpyAsync(memory, size, buffer, size, ACL_MEMCPY_HOST_TO_DEVICE, stream));
	if (!strcmp(argv[1], "threads")) {
		CHECK(!pthread_create(&thread, NULL, stays, NULL));
		while (!known)
			usleep(1000);
	}
	return 0;
}
