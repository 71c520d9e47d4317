/* Ends of a program while copies are queued: its own handlers may free what is copied. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <time.h>

#include "robust.h"

enum { buffers = 4, size = 4 << 20, rounds = 12 };

static unsigned char *host[buffers];
static void *device[buffers];
static int buffers_made;
static int lenient; /* an end in which copies may still run while the program's handlers do: docs/c.md */

static void make_buffers(void)
{
	void *ignored;

	OK(aclrtSetDevice(0));
	for (int i = 0; i < buffers; i++) {
		host[i] = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		CHECK(host[i] != MAP_FAILED);
		OK(aclrtHostRegister(host[i], size, ACL_HOST_REGISTER_MAPPED, &ignored));
		OK(aclrtMalloc(&device[i], size, ACL_MEM_MALLOC_HUGE_FIRST));
		OK(aclrtMemset(device[i], size, 0x11, size));
	}
	buffers_made = 1;
}

/* Queues far more copies into the buffers than are done when it returns. */
static void queue_copies(void)
{
	for (int i = 0; i < buffers; i++) {
		aclrtStream s;
		OK(aclrtCreateStream(&s));
		for (int j = 0; j < rounds; j++)
			OK(aclrtMemcpyAsync(host[i], size, device[i], size, ACL_MEMCPY_DEVICE_TO_HOST, s));
	}
}

/*
 * Where copies may still run, the addresses stay reserved: a thread that starts now would get its stack there, and a copy would
 * write over it. That is the program's fault and no fault of the library, which has to survive the missing memory.
 */
static void take_away(void *memory)
{
	if (!lenient)
		CHECK(!munmap(memory, size));
	else
		CHECK(mmap(memory, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == memory);
}

/* A handler of the program: from now on the buffers are its own. It sees whether anybody still writes, then unmaps them. */
static void take_buffers(void)
{
	struct timespec moment = {0, 2000000};

	if (!buffers_made)
		return;
	for (int i = 0; i < buffers; i++)
		memset(host[i], 0x22, size);
	nanosleep(&moment, NULL);
	for (int i = 0; i < buffers; i++)
		for (int j = 0; j < size; j += 512)
			if (host[i][j] != 0x22 && !lenient) {
				fprintf(stderr, "a copy still runs while the program's exit handlers do\n");
				_exit(1);
			}
	for (int i = 0; i < buffers; i++)
		take_away(host[i]);
}

static void handler_before(void)
{
	atexit(take_buffers);
	make_buffers();
	queue_copies();
	exit(0);
}

static void handler_after(void)
{
	make_buffers();
	atexit(take_buffers);
	queue_copies();
}

static void *exits(void *unused)
{
	queue_copies();
	exit(0);
	return unused;
}

static void *exits_after_using(void *unused)
{
	OK(aclrtSetDevice(0));
	return exits(unused);
}

static void other_thread(void *(*body)(void *))
{
	pthread_t t;

	CHECK(!pthread_create(&t, NULL, body, NULL));
	pthread_join(t, NULL);
}

static void thread_before(void)
{
	atexit(take_buffers);
	make_buffers();
	other_thread(exits_after_using);
}

static void thread_after(void)
{
	lenient = 1;
	make_buffers();
	atexit(take_buffers);
	other_thread(exits_after_using);
}

/* The thread that ends the process never called. */
static void *only_exits(void *unused)
{
	exit(0);
	return unused;
}

static void stranger(void)
{
	lenient = 1;
	make_buffers();
	atexit(take_buffers);
	queue_copies();
	other_thread(only_exits);
}

/* Only another thread used the library; the main thread returns. */
static void *uses(void *unused)
{
	make_buffers();
	queue_copies();
	return unused;
}

static void main_never_called(void)
{
	atexit(take_buffers);
	other_thread(uses);
}

static void quick(void)
{
	at_quick_exit(take_buffers);
	make_buffers();
	queue_copies();
	quick_exit(0);
}

static void quick_after(void)
{
	lenient = 1;
	make_buffers();
	at_quick_exit(take_buffers);
	queue_copies();
	quick_exit(0);
}

/* Functions work in exit handlers. */
static void works_at_exit(void)
{
	copy_both_ways(1);
	OK(aclFinalize());
}

static void calls_before(void)
{
	atexit(works_at_exit);
	OK(aclInit(NULL));
	copy_both_ways(1);
}

static void calls_after(void)
{
	OK(aclInit(NULL));
	copy_both_ways(1);
	atexit(works_at_exit);
}

static void first_call_at_exit(void)
{
	atexit(take_buffers);
	atexit(make_buffers);
}

/* Nobody records the event a stream waits for. */
static void stuck(void)
{
	aclrtStream s;
	aclrtEvent e;

	make_buffers();
	OK(aclrtCreateStream(&s));
	OK(aclrtCreateEventWithFlag(&e, ACL_EVENT_SYNC));
	OK(aclrtStreamWaitEvent(s, e));
	OK(aclrtMemcpyAsync(host[0], size, device[0], size, ACL_MEMCPY_DEVICE_TO_HOST, s));
	queue_copies();
	atexit(take_buffers);
}

/* A callback that never returns, and a thread that waits for ever, do not keep the process. */
static void forever(void *unused)
{
	(void)unused;
	for (;;)
		pause();
}

static void *waits(void *stream)
{
	aclrtSynchronizeStream(stream);
	return NULL;
}

static void sleeping_callback(void)
{
	aclrtStream s;
	pthread_t t;

	OK(aclrtSetDevice(0));
	OK(aclrtCreateStream(&s));
	OK(aclrtLaunchHostFunc(s, forever, NULL));
	CHECK(!pthread_create(&t, NULL, waits, s));
}

/*
 * Other threads copy while the process ends. The software device is there to the last; a GPU's driver ends in an exit handler,
 * and from then on these threads are refused. That is all that may happen to them.
 */
static atomic_int ends;

static aclError copy_once(void)
{
	unsigned char here[64] = {0};
	aclrtStream stream = NULL;
	void *there = NULL;
	aclError code;

	if ((code = aclrtSetDevice(0)) || (code = aclrtCreateStream(&stream)) ||
	    (code = aclrtMalloc(&there, sizeof here, ACL_MEM_MALLOC_HUGE_FIRST)) ||
	    (code = aclrtMemcpyAsync(there, sizeof here, here, sizeof here, ACL_MEMCPY_HOST_TO_DEVICE, stream)) ||
	    (code = aclrtSynchronizeStream(stream)) || (code = aclrtFree(there)))
		return code;
	return aclrtDestroyStream(stream);
}

static void *copies_forever(void *unused)
{
	const char *driver = getenv("ROPEWAY_DRIVER");

	while (copy_once() == ACL_SUCCESS)
		;
	if (!ends || !driver || !strcmp(driver, "soft")) {
		fprintf(stderr, "a copy was refused: %s\n", aclGetRecentErrMsg());
		_exit(1);
	}
	return unused;
}

static void busy(void)
{
	for (int i = 0; i < 4; i++) {
		pthread_t t;
		CHECK(!pthread_create(&t, NULL, copies_forever, NULL));
	}
	copy_both_ways(1);
	ends = 1;
}

/* The main thread ends, and the process goes on until another one ends it. */
static void *goes_on(void *main_thread)
{
	CHECK(!pthread_join(*(pthread_t *)main_thread, NULL));
	for (int i = 0; i < 100; i++)
		copy_both_ways((unsigned)i);
	make_buffers();
	atexit(take_buffers);
	OK(aclrtSynchronizeDevice());
	exit(0);
	return NULL;
}

static void main_leaves(void)
{
	static pthread_t self;
	pthread_t t;

	self = pthread_self();
	copy_both_ways(1);
	CHECK(!pthread_create(&t, NULL, goes_on, &self));
	pthread_exit(NULL);
}

/* No handlers at all, in every way. */
static void plain_exit(void)
{
	make_buffers();
	queue_copies();
}

static void plain_underscore(void)
{
	plain_exit();
	_exit(0);
}

static void plain_abort(void)
{
	plain_exit();
	abort();
}

/* exit in a callback that the library calls. */
static void ends_process(void *unused)
{
	(void)unused;
	exit(0);
}

static void from_callback(void)
{
	aclrtStream s;

	make_buffers();
	queue_copies();
	OK(aclrtCreateStream(&s));
	OK(aclrtLaunchHostFunc(s, ends_process, NULL));
	OK(aclrtSynchronizeStream(s));
	for (;;)
		pause();
}

static const struct mode modes[] = {
	{"handler_before", handler_before}, {"handler_after", handler_after},
	{"thread_before", thread_before}, {"thread_after", thread_after}, {"stranger", stranger},
	{"main_never_called", main_never_called}, {"quick", quick}, {"quick_after", quick_after},
	{"calls_before", calls_before}, {"calls_after", calls_after}, {"first_call_at_exit", first_call_at_exit},
	{"stuck", stuck}, {"sleeping_callback", sleeping_callback}, {"busy", busy}, {"main_leaves", main_leaves},
	{"plain_exit", plain_exit}, {"plain_underscore", plain_underscore}, {"plain_abort", plain_abort},
	{"from_callback", from_callback},
};

int main(int argc, char **argv)
{
	RUN_MODE(modes, argc, argv);
}
