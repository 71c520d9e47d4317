/* Mistakes of a program that a sanitizer must find, so that its silence elsewhere means something. */
#include <pthread.h>

#include "robust.h"

static void *volatile kept;

/* The program reads what it freed, after the library used it. */
static void freed(void)
{
	char *host = malloc(4096);

	OK(aclrtSetDevice(0));
	OK(aclrtMallocHost((void **)&kept, 64));
	OK(aclrtMemcpy(host, 4096, kept, 64, ACL_MEMCPY_HOST_TO_HOST));
	free(host);
	printf("%d\n", ((volatile char *)host)[1]);
}

static void leaked(void)
{
	copy_both_ways(1);
	kept = malloc(1234);
	kept = NULL;
}

/* Two threads write one variable, and copies on their own streams do not order them. */
static int shared;

static void *writes(void *unused)
{
	for (int i = 0; i < 1000; i++)
		shared++;
	copy_both_ways(1);
	return unused;
}

static void raced(void)
{
	pthread_t a, b;

	CHECK(!pthread_create(&a, NULL, writes, NULL));
	CHECK(!pthread_create(&b, NULL, writes, NULL));
	CHECK(!pthread_join(a, NULL));
	CHECK(!pthread_join(b, NULL));
}

static const struct mode modes[] = {{"freed", freed}, {"leaked", leaked}, {"raced", raced}};

int main(int argc, char **argv)
{
	RUN_MODE(modes, argc, argv);
}
