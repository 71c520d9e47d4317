/* Threads that come and go: what the library keeps of them, and what is theirs alone. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <ucontext.h>

#include "robust.h"

enum { at_once = 16 };

/* Runs n threads, at_once at a time. */
static void threads(int n, void *(*body)(void *))
{
	pthread_t wave[at_once];

	for (int done = 0; done < n; done += at_once) {
		int size = n - done < at_once ? n - done : at_once;
		for (int i = 0; i < size; i++)
			CHECK(!pthread_create(&wave[i], NULL, body, (void *)(intptr_t)(done + i)));
		for (int i = 0; i < size; i++)
			CHECK(!pthread_join(wave[i], NULL));
	}
}

/* What the process holds: memory of its own in KiB, mappings, threads. */
struct holding {
	long memory, mappings, threads;
};

static struct holding holding(void)
{
	struct holding h;
	FILE *maps = fopen("/proc/self/maps", "r");

	CHECK(maps);
	h.mappings = 0;
	for (int c; (c = fgetc(maps)) != EOF;)
		h.mappings += c == '\n';
	fclose(maps);
	h.memory = proc_number("/proc/self/smaps_rollup", "Private_Dirty") + proc_number("/proc/self/smaps_rollup", "Shared_Dirty");
	h.threads = proc_number("/proc/self/status", "Threads");
	printf("%ld KiB, %ld mappings, %ld threads\n", h.memory, h.mappings, h.threads);
	return h;
}

/* What a thread may leave behind, in bytes: nothing by us, a little by the driver of some devices. */
static long keeps(void)
{
	const char *text = getenv("KEPT_OF_A_THREAD");

	return text ? atol(text) : 0;
}

/* Copies of ordinary memory that take long enough for those of all threads of a wave to run at the same time. */
enum { long_size = 32 << 20 };
static void *long_host, *long_device;
static pthread_barrier_t together;

static void *long_copy(void *unused)
{
	(void)unused;
	OK(aclrtSetDevice(0));
	pthread_barrier_wait(&together);
	OK(aclrtMemcpy(long_device, long_size, long_host, long_size, ACL_MEMCPY_HOST_TO_DEVICE));
	return NULL;
}

/* Drivers keep memory for as many copies as ever ran at the same time. This has the most of them that there can be. */
static void most_at_once(void)
{
	long_host = calloc(1, long_size);
	CHECK(long_host);
	OK(aclrtMalloc(&long_device, long_size, ACL_MEM_MALLOC_HUGE_FIRST));
	CHECK(!pthread_barrier_init(&together, NULL, at_once));
	threads(at_once, long_copy);
}

/* Runs many threads and compares what the process holds after a tenth of them with what it holds at the end. */
static void stays_flat(int n, void *(*body)(void *))
{
	OK(aclInit(NULL));
	OK(aclrtSetDevice(0));
	most_at_once();
	threads(n / 10, body);
	struct holding early = holding();
	threads(n / 2 - n / 10, body);
	struct holding middle = holding();
	threads(n / 2, body);
	struct holding late = holding();
	/*
	 * The core's heap breathes by a few MiB, more so beside other work, and settles. What threads leave behind adds up evenly: 8 MiB are
	 * less than 1 KiB for each of them, and the second half has its share.
	 */
	long most = 8192 + keeps() * (n - n / 10) / 1024;
	CHECK(late.memory - early.memory < most || late.memory - middle.memory < most * 5 / 9);
	CHECK(late.mappings - early.mappings < 64);
	/* The runtime's own threads are few; none belongs to a thread that ended. */
	CHECK(late.threads - early.threads < at_once);
}

static void *short_life(void *seed)
{
	copy_both_ways((unsigned)(uintptr_t)seed);
	return NULL;
}

static void flat(void)
{
	stays_flat(10000, short_life);
}

static void some(void)
{
	OK(aclInit(NULL));
	threads(320, short_life);
}

/* Each thread of a pair makes its own mistake and must find its own code. */
static pthread_barrier_t mistakes;

static void *own_error(void *seed)
{
	uintptr_t which = (uintptr_t)seed;
	int mine = which % 2 ? ACL_ERROR_RT_CONTEXT_NULL : ACL_ERROR_RT_INVALID_DEVICEID;
	void *memory;

	IS(ACL_SUCCESS, aclrtGetLastError(ACL_RT_THREAD_LEVEL));
	pthread_barrier_wait(&mistakes);
	if (which % 2)
		IS(mine, aclrtMalloc(&memory, 1, ACL_MEM_MALLOC_HUGE_FIRST));
	else
		IS(mine, aclrtSetDevice(1000));
	pthread_barrier_wait(&mistakes);
	IS(mine, aclrtPeekAtLastError(ACL_RT_THREAD_LEVEL));
	IS(mine, aclrtGetLastError(ACL_RT_THREAD_LEVEL));
	pthread_barrier_wait(&mistakes);
	IS(ACL_SUCCESS, aclrtGetLastError(ACL_RT_THREAD_LEVEL));
	return NULL;
}

static void errors(void)
{
	pthread_t wave[at_once];

	OK(aclInit(NULL));
	OK(aclrtSetDevice(0));
	pthread_barrier_init(&mistakes, NULL, at_once);
	for (int i = 0; i < at_once; i++)
		CHECK(!pthread_create(&wave[i], NULL, own_error, (void *)(intptr_t)i));
	for (int i = 0; i < at_once; i++)
		CHECK(!pthread_join(wave[i], NULL));
	IS(ACL_SUCCESS, aclrtGetLastError(ACL_RT_THREAD_LEVEL));
}

/* A context is current in the thread that made it so, and in no other. */
static void *own_context(void *seed)
{
	aclrtContext mine, now;

	(void)seed;
	IS(ACL_ERROR_RT_CONTEXT_NULL, aclrtGetCurrentContext(&now));
	OK(aclrtCreateContext(&mine, 0));
	OK(aclrtGetCurrentContext(&now));
	CHECK(now == mine);
	sched_yield();
	OK(aclrtGetCurrentContext(&now));
	CHECK(now == mine);
	OK(aclrtDestroyContext(mine));
	return NULL;
}

static void contexts(void)
{
	OK(aclInit(NULL));
	threads(320, own_context);
}

/* The destructor of a key of the program: the thread still has its context, and may copy. */
static pthread_key_t at_end;
static atomic_int destructors;

static void end_of_thread(void *context)
{
	aclrtContext now;

	OK(aclrtGetCurrentContext(&now));
	CHECK(now == context);
	copy_both_ways(3);
	destructors++;
}

static void *leaves_work(void *seed)
{
	aclrtContext context;

	copy_both_ways((unsigned)(uintptr_t)seed);
	OK(aclrtGetCurrentContext(&context));
	CHECK(!pthread_setspecific(at_end, context));
	return NULL;
}

static void keys(void)
{
	CHECK(!pthread_key_create(&at_end, end_of_thread));
	stays_flat(10000, leaves_work);
	CHECK(destructors == 10000);
}

/* A destructor that asks for three of the four rounds there are, and calls in each: it is served, and nothing is kept. */
static void end_again(void *round)
{
	uintptr_t n = (uintptr_t)round;

	copy_both_ways((unsigned)n);
	destructors++;
	if (n < 3)
		CHECK(!pthread_setspecific(at_end, (void *)(n + 1)));
}

static void *never_done(void *seed)
{
	(void)seed;
	CHECK(!pthread_setspecific(at_end, (void *)1));
	return NULL; /* the first call of this thread comes from its destructor */
}

static void rounds(void)
{
	CHECK(!pthread_key_create(&at_end, end_again));
	stays_flat(10000, never_done);
	CHECK(destructors == 10000 * 3);
}

/* Threads that are cancelled where they sleep, with a context and a stream. */
static void *sleeps(void *seed)
{
	copy_both_ways((unsigned)(uintptr_t)seed);
	for (;;)
		pause();
	return NULL;
}

static void cancel(void)
{
	OK(aclInit(NULL));
	for (int i = 0; i < 200; i++) {
		pthread_t t;
		void *end;
		CHECK(!pthread_create(&t, NULL, sleeps, NULL));
		CHECK(!pthread_cancel(t));
		CHECK(!pthread_join(t, &end));
		CHECK(end == PTHREAD_CANCELED);
	}
	copy_both_ways(1);
}

/*
 * Threads that are cancelled in a call: it goes on, also when functions of the program that it calls are cancellation points,
 * and the thread ends at the first such point after it.
 */
static atomic_int in_call, returned;
static aclrtEvent opens;

static void *waits(void *stream)
{
	OK(aclrtSetDevice(0));
	in_call = 1;
	OK(aclrtSynchronizeStream(stream));
	returned = 1;
	pthread_testcancel();
	return NULL;
}

static void is_point(void *unused)
{
	(void)unused;
	in_call = 1;
	while (in_call != 2) /* it is cancelled by then */
		sched_yield();
	pthread_testcancel();
	returned = 1;
}

static void *reports(void *stream)
{
	OK(aclrtSetDevice(0));
	OK(aclrtSubscribeReport((uint64_t)pthread_self(), stream));
	OK(aclrtLaunchCallback(is_point, NULL, ACL_CALLBACK_NO_BLOCK, stream));
	OK(aclrtProcessReport(-1));
	OK(aclrtUnSubscribeReport((uint64_t)pthread_self(), stream));
	pthread_testcancel();
	return NULL;
}

/* What docs/c.md shows for waits that end when the thread is cancelled. */
static void *waits_in_slices(void *stream)
{
	OK(aclrtSetDevice(0));
	in_call = 1;
	while (aclrtSynchronizeStreamWithTimeout(stream, 10) == ACL_ERROR_RT_STREAM_SYNC_TIMEOUT)
		pthread_testcancel();
	return NULL;
}

static void cancel_one(void *(*body)(void *), aclrtStream other)
{
	pthread_t t;
	void *end;
	aclrtStream mine;

	OK(aclrtCreateStream(&mine));
	in_call = returned = 0;
	CHECK(!pthread_create(&t, NULL, body, body == reports ? mine : other));
	while (!in_call)
		sched_yield();
	CHECK(!pthread_cancel(t));
	in_call = 2;
	if (body == waits)
		OK(aclrtRecordEvent(opens, mine));
	CHECK(!pthread_join(t, &end));
	CHECK(end == PTHREAD_CANCELED);
	CHECK(returned == (body != waits_in_slices));
	copy_both_ways(1);
}

static void cancel_in_call(void)
{
	aclrtStream stream;

	OK(aclrtSetDevice(0));
	for (int i = 0; i < 20; i++) {
		OK(aclrtCreateStream(&stream));
		OK(aclrtCreateEventWithFlag(&opens, ACL_EVENT_SYNC));
		OK(aclrtStreamWaitEvent(stream, opens));
		cancel_one(waits_in_slices, stream);
		cancel_one(waits, stream);
		cancel_one(reports, stream);
	}
}

/* Small stacks, as programs with many threads have; 500 threads that are all alive at once. */
static pthread_barrier_t all_alive;

static void *in_crowd(void *seed)
{
	pthread_barrier_wait(&all_alive);
	return short_life(seed);
}

static void crowd(void)
{
	enum { n = 500 };
	pthread_t t[n];
	pthread_attr_t small;

	pthread_attr_init(&small);
	CHECK(!pthread_attr_setstacksize(&small, 64 << 10));
	OK(aclInit(NULL));
	pthread_barrier_init(&all_alive, NULL, n);
	for (int i = 0; i < n; i++)
		CHECK(!pthread_create(&t[i], &small, in_crowd, (void *)(intptr_t)i));
	for (int i = 0; i < n; i++)
		CHECK(!pthread_join(t[i], NULL));
}

/* Calls from stacks the program made itself, in turn with those from its own. */
static ucontext_t own, coroutine;

static void in_coroutine(void)
{
	for (unsigned i = 0;; i++) {
		copy_both_ways(i);
		CHECK(!swapcontext(&coroutine, &own));
	}
}

static void coroutines(void)
{
	enum { size = 256 << 10 };

	CHECK(!getcontext(&coroutine));
	coroutine.uc_stack.ss_sp = malloc(size);
	coroutine.uc_stack.ss_size = size;
	makecontext(&coroutine, in_coroutine, 0);
	for (unsigned i = 0; i < 100; i++) {
		CHECK(!swapcontext(&own, &coroutine));
		copy_both_ways(i);
	}
	free(coroutine.uc_stack.ss_sp);
	copy_both_ways(1);
}

static const struct mode modes[] = {
	{"flat", flat}, {"errors", errors}, {"contexts", contexts}, {"keys", keys},
	{"some", some}, {"rounds", rounds}, {"cancel", cancel}, {"cancel_in_call", cancel_in_call}, {"crowd", crowd},
	{"coroutines", coroutines},
};

int main(int argc, char **argv)
{
	RUN_MODE(modes, argc, argv);
}
