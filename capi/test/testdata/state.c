/* State of the process and of the thread that belongs to the program: no call changes it. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <fenv.h>
#include <locale.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "robust.h"

/* One call of each kind; all succeed. Begins with the first load where nothing was called before. */
static void all_kinds(void)
{
	enum { size = 1 << 20 };
	void *device, *host;
	aclrtStream s;
	aclrtEvent begin, end;
	float ms;
	static char pageable[size];

	OK(aclrtSetDevice(0));
	OK(aclrtCreateStream(&s));
	OK(aclrtCreateEvent(&begin));
	OK(aclrtCreateEvent(&end));
	OK(aclrtMalloc(&device, size, ACL_MEM_MALLOC_HUGE_FIRST));
	OK(aclrtMallocHost(&host, size));
	OK(aclrtRecordEvent(begin, s));
	for (size_t n = 1; n <= size; n *= 4) {
		OK(aclrtMemcpyAsync(device, size, host, n, ACL_MEMCPY_HOST_TO_DEVICE, s));
		OK(aclrtMemcpy(pageable, size, device, n, ACL_MEMCPY_DEVICE_TO_HOST));
	}
	OK(aclrtRecordEvent(end, s));
	OK(aclrtSynchronizeStream(s));
	OK(aclrtSynchronizeDevice());
	OK(aclrtEventElapsedTime(&ms, begin, end));
	CHECK(aclFloat16ToFloat(aclFloatToFloat16(1.5f)) == 1.5f);
	aclFloatToFloat16(0.1f);   /* not exact */
	aclFloatToFloat16(1e30f);  /* too large */
	aclFloatToFloat16(1e-30f); /* too small */
	aclFloat16ToFloat(0x7d00); /* not a number, signalling */
	CHECK(aclrtGetSocName());
	CHECK(aclDataTypeSize(ACL_FLOAT) == 4);
	OK(aclrtFree(device));
	OK(aclrtFreeHost(host));
	OK(aclrtDestroyEvent(begin));
	OK(aclrtDestroyEvent(end));
	OK(aclrtDestroyStream(s));
}

#if defined __x86_64__
static unsigned control(void)
{
	unsigned mxcsr;
	unsigned short x87;

	__asm__ volatile("stmxcsr %0" : "=m"(mxcsr));
	__asm__ volatile("fnstcw %0" : "=m"(x87));
	return mxcsr << 16 | x87;
}
#else
static unsigned control(void)
{
	return 0;
}
#endif

static void leaves_floats(void)
{
	static const int modes[] = {FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
	static const int flags[] = {0, FE_INEXACT, FE_DIVBYZERO | FE_OVERFLOW, FE_ALL_EXCEPT};

	for (int i = 0; i < 4; i++)
		for (int j = 0; j < 4; j++) {
			CHECK(!fesetround(modes[i]));
			feclearexcept(FE_ALL_EXCEPT);
			feraiseexcept(flags[j]);
			int raised = fetestexcept(FE_ALL_EXCEPT);
			unsigned before = control();
			all_kinds();
			CHECK(fegetround() == modes[i]);
			CHECK(fetestexcept(FE_ALL_EXCEPT) == raised);
			CHECK(control() == before);
		}
}

static void floats(void)
{
	leaves_floats();
}

static void *floats_in_thread(void *unused)
{
	leaves_floats();
	return unused;
}

static void floats_thread(void)
{
	pthread_t t;

	all_kinds();
	CHECK(!pthread_create(&t, NULL, floats_in_thread, NULL));
	CHECK(!pthread_join(t, NULL));
}

/* The program traps errors of its own arithmetic: the library makes none that would trap. */
static void traps(int which)
{
	feclearexcept(FE_ALL_EXCEPT);
	CHECK(feenableexcept(which) != -1);
	for (int i = 0; i < 200; i++)
		all_kinds();
	CHECK(fegetexcept() == which);
}

static void traps_usual(void)
{
	traps(FE_DIVBYZERO | FE_INVALID | FE_OVERFLOW);
}

static void traps_all(void)
{
	traps(FE_ALL_EXCEPT);
}

/* Denormals as zero and flush to zero, as compilers set them for fast arithmetic. */
static void denormals(void)
{
#if defined __x86_64__
	unsigned mxcsr;

	__asm__ volatile("stmxcsr %0" : "=m"(mxcsr));
	mxcsr |= 0x8040;
	__asm__ volatile("ldmxcsr %0" : : "m"(mxcsr));
	unsigned before = control();
	all_kinds();
	CHECK(control() == before);
#endif
	CHECK(aclFloat16ToFloat(1) == 0x1p-24f);
}

/* Locale, limits, umask, directory, environment. */
static void process(void)
{
	struct rlimit before, after;
	char text[32], here[4096], there[4096];

	CHECK(setlocale(LC_ALL, "C.UTF-8"));
	umask(027);
	CHECK(!getrlimit(RLIMIT_NOFILE, &before));
	CHECK(getcwd(here, sizeof here));
	char *value = getenv("PATH");
	all_kinds();
	CHECK(!strcmp(setlocale(LC_ALL, NULL), "C.UTF-8"));
	snprintf(text, sizeof text, "%.2f", 1234.5);
	CHECK(!strcmp(text, "1234.50"));
	CHECK(umask(0) == 027);
	CHECK(!getrlimit(RLIMIT_NOFILE, &after));
	CHECK(before.rlim_cur == after.rlim_cur && before.rlim_max == after.rlim_max);
	CHECK(getcwd(there, sizeof there) && !strcmp(here, there));
	CHECK(getenv("PATH") == value);
}

/* A process without standard files: what it or anybody writes to them must not reach device memory. */
static void files(void)
{
	char path[64], target[256];

	for (int fd = 0; fd < 3; fd++)
		close(fd);
	all_kinds();
	for (int fd = 0; fd < 3; fd++) {
		snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
		ssize_t n = readlink(path, target, sizeof target - 1);
		target[n < 0 ? 0 : n] = 0;
		if (strstr(target, "memfd"))
			_exit(1);
	}
}

/* Nothing the library opened is there after exec. */
static void inherited(void)
{
	enum { most = 1024 };
	char before[most];

	for (int fd = 0; fd < most; fd++)
		before[fd] = fcntl(fd, F_GETFD) >= 0;
	all_kinds();
	for (int fd = 0; fd < most; fd++) {
		int flags = fcntl(fd, F_GETFD);
		CHECK(before[fd] || flags < 0 || flags & FD_CLOEXEC);
	}
}

/* A call that succeeds leaves errno alone. */
#define KEEPS_ERRNO(call) \
	do { \
		errno = 12345; \
		call; \
		if (errno != 12345) { \
			fprintf(stderr, "%s:%d: %s sets errno to %d\n", __FILE__, __LINE__, #call, errno); \
			exit(1); \
		} \
	} while (0)

static void errno_kept(void)
{
	KEEPS_ERRNO(OK(aclInit(NULL)));
	for (int i = 0; i < 3; i++)
		KEEPS_ERRNO(all_kinds());
	KEEPS_ERRNO(OK(aclFinalize()));
}

/* Callbacks. */
static aclrtStream other_stream;
static atomic_int called;

#if defined __x86_64__
#include <xmmintrin.h>
#endif

static void aligned(void *data)
{
	_Alignas(16) volatile float room[4] = {1, 2, 3, 4};

	CHECK(((uintptr_t)room & 15) == 0);
	uintptr_t frame = (uintptr_t)__builtin_frame_address(0);
	CHECK((frame & 15) == 0); /* the caller kept the stack aligned to 16 bytes */
#if defined __x86_64__
	__m128 four = _mm_load_ps((float *)room); /* faults if it is not */
	_mm_store_ps((float *)room, _mm_add_ps(four, four));
	CHECK(room[3] == 8);
#endif
	(*(int *)data)++;
	called++;
}

/* Calls from a callback would wait for ever for a lock that its caller held. */
static void calls_back(void *data)
{
	int32_t device;
	void *memory;

	OK(aclrtSetDevice(0));
	OK(aclrtGetDevice(&device));
	OK(aclrtMalloc(&memory, 4096, ACL_MEM_MALLOC_HUGE_FIRST));
	OK(aclrtMemset(memory, 4096, 1, 4096));
	OK(aclrtFree(memory));
	copy_both_ways(1);
	if (data) { /* not from a host function: one thread runs them all */
		OK(aclrtLaunchHostFunc(other_stream, aligned, data));
		OK(aclrtSynchronizeStream(other_stream));
	}
	called++;
}

/* A deep stack: callbacks run on stacks as large as those of the program's threads. */
static void deep(void *data)
{
	volatile char room[512 << 10];

	for (size_t i = 0; i < sizeof room; i += 4096)
		room[i] = (char)i;
	(void)data;
	called++;
}

static void *reports(void *ready)
{
	OK(aclrtSetDevice(0));
	pthread_barrier_wait(ready);
	while (called < 7)
		aclrtProcessReport(100);
	return NULL;
}

static void callbacks(void)
{
	aclrtStream s;
	pthread_t t;
	pthread_barrier_t ready;
	int n = 0;

	OK(aclrtSetDevice(0));
	OK(aclrtCreateStream(&s));
	OK(aclrtCreateStream(&other_stream));
	for (int i = 0; i < 3; i++) {
		OK(aclrtLaunchHostFunc(s, aligned, &n));
		OK(aclrtLaunchHostFunc(s, calls_back, NULL));
		OK(aclrtLaunchHostFunc(s, deep, NULL));
	}
	OK(aclrtSynchronizeStream(s));
	CHECK(n == 3 && called == 9);
	called = n = 0;
	OK(aclrtCreateStream(&s)); /* a stream has host functions or reports */
	pthread_barrier_init(&ready, NULL, 2);
	CHECK(!pthread_create(&t, NULL, reports, &ready));
	pthread_barrier_wait(&ready);
	OK(aclrtSubscribeReport((uint64_t)t, s));
	OK(aclrtLaunchCallback(aligned, &n, ACL_CALLBACK_BLOCK, s));
	OK(aclrtLaunchCallback(calls_back, &n, ACL_CALLBACK_BLOCK, s));
	OK(aclrtLaunchCallback(aligned, &n, ACL_CALLBACK_NO_BLOCK, s));
	OK(aclrtLaunchCallback(calls_back, &n, ACL_CALLBACK_NO_BLOCK, s));
	OK(aclrtLaunchCallback(deep, NULL, ACL_CALLBACK_BLOCK, s));
	OK(aclrtSynchronizeStream(s));
	CHECK(!pthread_join(t, NULL));
	CHECK(n == 4 && called == 7);
}

static const struct mode modes[] = {
	{"floats", floats}, {"floats_thread", floats_thread}, {"traps_usual", traps_usual}, {"traps_all", traps_all},
	{"denormals", denormals}, {"process", process}, {"files", files}, {"inherited", inherited}, {"errno", errno_kept}, {"callbacks", callbacks},
};

int main(int argc, char **argv)
{
	RUN_MODE(modes, argc, argv);
}
