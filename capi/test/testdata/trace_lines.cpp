/* Calls from places that a recording names: each line with a call has the name of its function in a comment at its end. */
#include <dlfcn.h>
#include <stdio.h>
#include <thread>

#include "acl/acl.h"
#include "acl/acl_rt_api.h"

#define OK(call)                                                                     \
	do {                                                                         \
		if (aclError e = (call)) {                                           \
			fprintf(stderr, "%s:%d: %d\n", __FILE__, __LINE__, (int)e); \
			return 1;                                                    \
		}                                                                    \
	} while (0)

static inline __attribute__((always_inline)) aclError inlined(void *to, const void *from, aclrtStream stream)
{
	return aclrtMemcpyAsync(to, 64, from, 64, ACL_MEMCPY_HOST_TO_DEVICE, stream); // at: inlined
}

static __attribute__((noinline)) int threaded(aclrtContext context)
{
	OK(aclrtSetCurrentContext(context)); // at: threaded
	return 0;
}

static int with_plugin(const char *name)
{
	void *library = dlopen(name, RTLD_NOW);
	int (*count)(void) = library ? (int (*)(void))dlsym(library, "plugged") : NULL;
	return count ? count() : 1;
}

int main(int argc, char **argv)
{
	OK(aclInit(NULL));	// at: main
	OK(aclrtSetDevice(0));	// at: main
	aclrtStream stream;
	aclrtContext context;
	void *host, *device;
	OK(aclrtCreateStream(&stream));		       // at: main
	OK(aclrtMalloc(&device, 64, ACL_MEM_MALLOC_NORMAL_ONLY)); // at: main
	OK(aclrtMallocHost(&host, 64));		       // at: main
	for (int i = 0; i < 100; i++)
		OK(inlined(device, host, stream));
	OK(aclrtGetCurrentContext(&context)); // at: main
	int failed = 0;
	std::thread other([&] { failed = threaded(context); });
	other.join();
	OK(aclrtSynchronizeStream(stream)); // at: main
	return failed || (argc > 1 && with_plugin(argv[1]));
}
