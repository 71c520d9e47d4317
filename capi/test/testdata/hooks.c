/* Functions of the program in place of functions of the API. */
#define _GNU_SOURCE
#include <acl/acl.h>
#include <acl/acl_rt_allocator.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "modes.h"

/* A function as aclrtApiInjectionSetFunc takes it, and one of aclrtGetDevice's form as it was. */
#define ANY(f) ((aclrtApiFunc)(void (*)(void))(f))
#define DEVICE(f) ((aclError(*)(int32_t *))(void (*)(void))(f))

static atomic_int outer_calls, inner_calls;
static aclError (*original)(int32_t *), (*before)(int32_t *);

static aclError counting(int32_t *device)
{
	atomic_fetch_add(&inner_calls, 1);
	return original(device);
}

static aclError chained(int32_t *device)
{
	atomic_fetch_add(&outer_calls, 1);
	return before(device) + 4711;
}

static void get(const char *name, aclrtApiFunc *was, aclrtApiFunc *is)
{
	*was = *is = NULL;
	OK(aclrtApiInjectionGetFunc(name, was, is));
	CHECK(*was && *is);
}

/* One hook, a chain of two, and none. A call that the hook makes to the original does its work. */
static void chain(void)
{
	aclrtApiFunc was, is;
	int32_t device = -1;

	OK(aclInit(NULL));
	OK(aclrtSetDevice(0));
	get("aclrtGetDevice", &was, &is);
	CHECK(was == is);
	original = DEVICE(was);
	OK(aclrtApiInjectionSetFunc("aclrtGetDevice", ANY(counting)));
	get("aclrtGetDevice", &was, &is);
	CHECK(was == ANY(original) && is == ANY(counting));
	OK(aclrtGetDevice(&device));
	CHECK(device == 0 && inner_calls == 1);

	before = DEVICE(is);
	OK(aclrtApiInjectionSetFunc("aclrtGetDevice", ANY(chained)));
	IS(4711, aclrtGetDevice(&device)); /* a number that is no code */
	CHECK(inner_calls == 2 && outer_calls == 1);

	OK(aclrtApiInjectionSetFunc("aclrtGetDevice", was));
	OK(aclrtApiInjectionSetFunc("aclrtGetDevice", was));
	get("aclrtGetDevice", &was, &is);
	CHECK(was == is);
	OK(aclrtGetDevice(&device));
	CHECK(inner_calls == 2 && outer_calls == 1);
	OK(aclrtResetDevice(0));
	OK(aclFinalize());
}

static const char *other_name(void) { return "Other"; }
static aclError no_memory(void **p, size_t n, aclrtMemMallocPolicy policy)
{
	(void)p, (void)n, (void)policy;
	return ACL_ERROR_RT_MEMORY_ALLOCATION;
}

/* What the library calls by itself passes no hook, and hooks outlive aclFinalize. */
static void stays(void)
{
	void *p = NULL;

	OK(aclrtApiInjectionSetFunc("aclrtGetSocName", ANY(other_name)));
	CHECK(!strcmp(aclrtGetSocName(), "Other"));
	OK(aclrtApiInjectionSetFunc("aclrtMalloc", ANY(no_memory)));
	OK(aclInit(NULL));
	OK(aclrtSetDevice(0));
	IS(ACL_ERROR_RT_MEMORY_ALLOCATION, aclrtMalloc(&p, 64, ACL_MEM_MALLOC_HUGE_FIRST));
	OK(aclrtMallocCached(&p, 64, ACL_MEM_MALLOC_HUGE_FIRST));
	OK(aclrtFree(p));
	OK(aclrtResetDevice(0));
	OK(aclFinalize());
	OK(aclInit(NULL));
	IS(ACL_ERROR_RT_MEMORY_ALLOCATION, aclrtMalloc(&p, 64, ACL_MEM_MALLOC_HUGE_FIRST));
	OK(aclFinalize());
}

static int any(void) { return 0; }

/* Which names can be hooked, and what wrong calls return. */
static void names(void)
{
	static const char *const not[] = {
		"aclInit", "aclFinalize", "aclGetRecentErrMsg", "aclAppLog", "aclprofInit", "acltdtCreateChannel", "aclDataTypeSize",
		"aclrtApiInjectionSetFunc", "aclrtApiInjectionGetFunc", "rtMalloc", "aclrtmalloc", " aclrtMalloc", "aclrtMalloc ", "aclrt", "",
	};
	aclrtApiFunc was, is, first, third;

	get("aclrtMalloc", &first, &is);
	get("aclrtAllocatorRegister", &was, &is);
	get("aclmdlRIExecuteAsync", &third, &is);
	CHECK(was != first && was != third && first != third);
	OK(aclrtApiInjectionGetFunc("aclrtMemcpyAsyncWithCondition", NULL, NULL)); /* deprecated */
	for (size_t i = 0; i < sizeof not / sizeof *not; i++) {
		was = is = any;
		IS(ACL_ERROR_INVALID_PARAM, aclrtApiInjectionSetFunc(not[i], any));
		CHECK(strstr(aclGetRecentErrMsg(), "aclmdlRI"));
		IS(ACL_ERROR_INVALID_PARAM, aclrtApiInjectionGetFunc(not[i], &was, &is));
		CHECK(was == any && is == any);
	}
	IS(ACL_ERROR_INVALID_PARAM, aclrtApiInjectionSetFunc(NULL, any));
	IS(ACL_ERROR_INVALID_PARAM, aclrtApiInjectionSetFunc("aclrtMalloc", NULL));
	IS(ACL_ERROR_INVALID_PARAM, aclrtApiInjectionGetFunc(NULL, &was, &is));
}

static atomic_bool over;

static void *toggles(void *unused)
{
	(void)unused;
	while (!over) {
		OK(aclrtApiInjectionSetFunc("aclrtGetDevice", ANY(counting)));
		OK(aclrtApiInjectionSetFunc("aclrtGetDevice", ANY(original)));
	}
	return NULL;
}

/* A call runs the old function or the new one while another thread sets it. */
static void threads(void)
{
	pthread_t other;
	aclrtApiFunc was, is;
	int32_t device;

	OK(aclInit(NULL));
	OK(aclrtSetDevice(0));
	get("aclrtGetDevice", &was, &is);
	original = DEVICE(was);
	CHECK(!pthread_create(&other, NULL, toggles, NULL));
	for (int i = 0; i < 200000 || (!inner_calls && i < 100000000); i++) {
		device = -1;
		OK(aclrtGetDevice(&device));
		CHECK(device == 0);
	}
	over = 1;
	pthread_join(other, NULL);
	CHECK(inner_calls > 0);
	OK(aclrtResetDevice(0));
	OK(aclFinalize());
}

/* Calls that the tool of hook_tool.c counts, in a child: hooks set before the first call leave the process free to fork. */
static void counted(void)
{
	pid_t child = fork();
	CHECK(child >= 0);
	if (child) {
		int status = -1;
		CHECK(waitpid(child, &status, 0) == child && status == 0);
		return;
	}
	aclrtStream s;
	void *p;
	char c = 7;
	OK(aclInit(NULL));
	OK(aclrtSetDevice(0));
	OK(aclrtCreateStream(&s));
	OK(aclrtMalloc(&p, 64, ACL_MEM_MALLOC_HUGE_FIRST));
	for (int i = 0; i < 3; i++)
		OK(aclrtMemcpy(p, 64, &c, 1, ACL_MEMCPY_HOST_TO_DEVICE));
	OK(aclrtSynchronizeDevice());
	OK(aclrtFree(p));
	OK(aclrtDestroyStream(s));
	OK(aclrtResetDevice(0));
	OK(aclFinalize());
}

static const struct mode modes[] = {
	{"chain", chain}, {"stays", stays}, {"names", names}, {"threads", threads}, {"counted", counted},
};

int main(int argc, char **argv)
{
	RUN_MODE(modes, argc, argv);
}
