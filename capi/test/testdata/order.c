/*
 * What the thread sanitizer knows about the library: "ordered" does what is ordered by AscendCL alone, "race" what nothing
 * orders.
 */
#include <acl/acl.h>
#include <pthread.h>
#include <ropeway/kernel.h>
#include <string.h>
#include <unistd.h>

#include "check.h"

static int given, made;
static char *host;

static void add(void *args)
{
	made = given + *(int *)args;
	host[3] = 9;
}

/* Gets the memory that the main thread has written and freed. */
static void *again(void *args)
{
	char *mine;
	(void)args;
	OK(aclrtSetDevice(0));
	OK(aclrtMallocHost((void **)&mine, 64));
	memset(mine, 1, 64);
	OK(aclrtFreeHost(mine));
	OK(aclrtResetDevice(0));
	return NULL;
}

/* Steps of race, passed on without any order: relaxed atomics are none. */
static int steps;

static void reach(int step)
{
	__atomic_store_n(&steps, step, __ATOMIC_RELAXED);
}

static void await(int step)
{
	while (__atomic_load_n(&steps, __ATOMIC_RELAXED) < step)
		usleep(100);
}

static void *write_given(void *args)
{
	int32_t device;
	(void)args;
	OK(aclrtSetDevice(0));
	reach(1);
	await(2);
	OK(aclrtGetDevice(&device));
	given = 2;
	OK(aclrtResetDevice(0));
	return NULL;
}

/* A kernel that fails, and the callback of its binary. */
static int fails(const ropeway_block *block, void *data)
{
	(void)block;
	(void)data;
	return 1;
}

static void failed(aclrtExceptionInfo *info, void *data)
{
	(void)info;
	made = given + *(int *)data;
}

static void callbacks_of_binaries(aclrtStream s)
{
	ropeway_function function = {"fails", fails, NULL};
	aclrtBinHandle binary;
	aclrtFuncHandle kernel;
	int more = 0;
	OK(ropeway_load_functions(&function, 1, &binary));
	OK(aclrtBinaryGetFunction(binary, "fails", &kernel));
	OK(aclrtBinarySetExceptionCallback(binary, failed, &more));
	for (int i = 0; i < 20; i++) {
		given = i;
		more = 2 * i;
		OK(aclrtLaunchKernelWithHostArgs(kernel, 1, s, NULL, &more, sizeof more, NULL, 0));
		IS(ACL_ERROR_RT_AICORE_TRAP_EXCEPTION, aclrtSynchronizeStream(s));
		CHECK(made == 3 * i);
	}
	OK(aclrtBinaryUnLoad(binary));
}

static void ordered(void)
{
	aclrtStream s;
	int more = 0;
	OK(aclrtCreateStream(&s));
	OK(aclrtMallocHost((void **)&host, 64));
	for (int i = 0; i < 100; i++) {
		memset(host, 0, 64);
		given = i;
		more = 2 * i;
		OK(aclrtLaunchHostFunc(s, add, &more));
		OK(aclrtSynchronizeStream(s));
		CHECK(made == 3 * i && host[3] == 9);
	}
	callbacks_of_binaries(s);
	OK(aclrtDestroyStream(s));
	OK(aclrtFreeHost(host));
	pthread_t t;
	CHECK(pthread_create(&t, NULL, again, NULL) == 0);
	CHECK(pthread_join(t, NULL) == 0);
}

/* Both threads call the library between their writes, and that orders nothing. */
static void race(void)
{
	pthread_t t;
	int32_t device;
	CHECK(pthread_create(&t, NULL, write_given, NULL) == 0);
	await(1);
	given = 1;
	OK(aclrtGetDevice(&device));
	reach(2);
	CHECK(pthread_join(t, NULL) == 0);
}

int main(int argc, char **argv)
{
	CHECK(argc == 2);
	OK(aclInit(NULL));
	OK(aclrtSetDevice(0));
	if (strcmp(argv[1], "race") == 0)
		race();
	else
		ordered();
	OK(aclrtResetDevice(0));
	OK(aclFinalize());
	return 0;
}
