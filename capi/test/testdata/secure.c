/*
 * A program with more rights than its caller: what it makes of the environment. secure library [moved]; moved: the program has
 * an environment of its own by the time the library is loaded.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>

static void *find(void *library, const char *name)
{
	void *f = dlsym(library, name);
	if (!f) {
		fprintf(stderr, "%s\n", dlerror());
		exit(1);
	}
	return f;
}

int main(int argc, char **argv)
{
	uint32_t count = 0;

	if (argc > 2)
		setenv("MOVED", "1", 1);
	void *library = dlopen(argv[1], RTLD_NOW);
	if (!library) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	printf("secure %lu\n", getauxval(AT_SECURE));
	printf("init %d\n", ((int (*)(const char *))find(library, "aclInit"))(NULL));
	printf("set %d\n", ((int (*)(int))find(library, "aclrtSetDevice"))(0));
	((int (*)(uint32_t *))find(library, "aclrtGetDeviceCount"))(&count);
	printf("devices %u\n", count);
	printf("soc %s\n", ((const char *(*)(void))find(library, "aclrtGetSocName"))());
	printf("checked %d\n", ((int (*)(void))find(library, "ropeway_checking_enabled"))());
	printf("other %s\n", getenv("OTHER"));
	return 0;
}
