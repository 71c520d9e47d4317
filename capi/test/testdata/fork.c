/* Forks: before the first call a child works, after it every call returns at once with a clear error. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <time.h>

#include "robust.h"

extern char **environ;
static char **arguments;

/* Waits for a child, which must end by itself with the code. A child that hangs is ended by its alarm. */
static void ends_with(int code, pid_t child)
{
	int status;

	CHECK(waitpid(child, &status, 0) == child);
	if (!WIFEXITED(status) || WEXITSTATUS(status) != code) {
		fprintf(stderr, "a child ended with status %#x\n", status);
		exit(1);
	}
}

/* Forks a child that is ended if it hangs. Returns 0 in the child. */
static pid_t forked(void)
{
	pid_t child = fork();

	CHECK(child >= 0);
	if (!child)
		alarm(120);
	return child;
}

/* What a child must print that was forked from a process in which the library was in use. */
static void is_refused(void)
{
	void *p;
	aclrtStream s;
	int32_t n;
	size_t size;
	struct timespec used;

	IS(ACL_ERROR_INTERNAL_ERROR, aclrtMalloc(&p, 64, ACL_MEM_MALLOC_HUGE_FIRST));
	IS(ACL_ERROR_INTERNAL_ERROR, aclInit(NULL));
	IS(ACL_ERROR_INTERNAL_ERROR, aclrtSetDevice(0));
	IS(ACL_ERROR_INTERNAL_ERROR, aclrtGetDevice(&n));
	IS(ACL_ERROR_INTERNAL_ERROR, aclrtCreateStream(&s));
	IS(ACL_ERROR_INTERNAL_ERROR, aclrtMemcpy(&p, 8, &s, 8, ACL_MEMCPY_HOST_TO_HOST));
	IS(ACL_ERROR_INTERNAL_ERROR, aclrtSynchronizeDevice());
	IS(ACL_ERROR_INTERNAL_ERROR, aclrtGetMemInfo(ACL_DDR_MEM, &size, &size));
	IS(ACL_ERROR_INTERNAL_ERROR, aclFinalize());
	size = 7;
	IS(ACL_ERROR_INTERNAL_ERROR, aclrtMemcpyBatchAsync(NULL, NULL, NULL, NULL, 1, NULL, NULL, 1, &size, NULL));
	CHECK(size == SIZE_MAX); /* no copy is to blame */
	IS(ACL_ERROR_INTERNAL_ERROR, aclrtMemcpyBatch(NULL, NULL, NULL, NULL, 1, NULL, NULL, 1, NULL));
	CHECK(!aclrtGetSocName());          /* returns a pointer */
	CHECK(!aclCreateDataBuffer(p, 64)); /* a handle */
	CHECK(aclDataTypeSize(ACL_FLOAT) == 0); /* a number */
	CHECK(aclFloat16ToFloat(0x3c00) == 0);  /* a float */
	aclAppLog(ACL_ERROR, "f", "f.c", 1, "%s", "text"); /* nothing */
	const char *why = aclGetRecentErrMsg();
	CHECK(why && strstr(why, "forked") && strstr(why, "posix_spawn"));
	/* Nothing here waits, so the time it took is the time it used. */
	CHECK(!clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used));
	CHECK(used.tv_sec < 1);
}

/* A child that was forked before the first call works, and so does its parent after it. */
static void before(void)
{
	for (int i = 0; i < 3; i++) {
		pid_t child = forked();
		if (!child) {
			copy_both_ways(7);
			exit(0);
		}
		ends_with(0, child);
	}
	pid_t child = forked(); /* at the same time as its parent */
	copy_both_ways(8);
	if (!child)
		_exit(0);
	ends_with(0, child);
}

static void *keeps_copying(void *stop)
{
	while (!__atomic_load_n((int *)stop, __ATOMIC_ACQUIRE))
		copy_both_ways(1);
	return NULL;
}

static void in_thread(void *(*body)(void *))
{
	pthread_t t;

	CHECK(!pthread_create(&t, NULL, body, NULL));
	CHECK(!pthread_join(t, NULL));
}

static void *thread_of_child(void *unused)
{
	is_refused();
	return unused;
}

/* Forks while another thread copies. Children end in every way; the parent goes on. */
static void after(void)
{
	int stop = 0;
	pthread_t copying;

	copy_both_ways(1);
	CHECK(!pthread_create(&copying, NULL, keeps_copying, &stop));
	for (int i = 0; i < 20; i++) {
		pid_t child = forked();
		if (!child) {
			is_refused();
			switch (i % 4) {
			case 0:
				exit(0);
			case 1:
				_exit(0);
			case 2:
				in_thread(thread_of_child);
				exit(0);
			case 3: {
				pid_t grandchild = forked();
				if (grandchild)
					ends_with(0, grandchild);
				else
					is_refused();
				exit(0);
			}
			}
		}
		copy_both_ways((unsigned)i);
		ends_with(0, child);
	}
	__atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
	CHECK(!pthread_join(copying, NULL));
	copy_both_ways(2);
}

/* A thread that never called before it forked. */
static void *forks(void *unused)
{
	pid_t child = forked();

	if (!child) {
		is_refused();
		exit(0);
	}
	ends_with(0, child);
	return unused;
}

static void thread(void)
{
	copy_both_ways(1);
	in_thread(forks);
	copy_both_ways(2);
}

/* A host function forks: its thread is one of the library's own. */
static void forks_in_callback(void *unused)
{
	forks(unused);
}

static void callback(void)
{
	aclrtStream s;

	OK(aclrtSetDevice(0));
	OK(aclrtCreateStream(&s));
	OK(aclrtLaunchHostFunc(s, forks_in_callback, NULL));
	OK(aclrtSynchronizeStream(s));
}

/* The first call of a process, in a thread, while the main thread forks. */
static void *first_call(void *unused)
{
	copy_both_ways(3);
	return unused;
}

static void sleep_ns(long ns)
{
	struct timespec t = {ns / 1000000000, ns % 1000000000};

	while (nanosleep(&t, &t) && errno == EINTR)
		;
}

static long now_ns(void)
{
	struct timespec t;

	CHECK(!clock_gettime(CLOCK_MONOTONIC, &t));
	return t.tv_sec * 1000000000 + t.tv_nsec;
}

/* The child of the race: either it works completely or it is refused completely. Returns its exit code. */
static int works_or_refused(void)
{
	int32_t device;

	if (aclrtSetDevice(0) == ACL_SUCCESS) {
		copy_both_ways(4);
		return 10;
	}
	IS(ACL_ERROR_INTERNAL_ERROR, aclrtGetDevice(&device));
	is_refused();
	return 11;
}

/* One process: its first call and its fork race. Ends with what became of the child. */
static void one_race(long delay, int polite)
{
	pthread_t t;
	int status;

	CHECK(!pthread_create(&t, NULL, first_call, NULL));
	if (delay)
		sleep_ns(delay);
	pid_t child = forked();
	if (!child) {
		int code = works_or_refused();
		if (polite)
			exit(code);
		_exit(code);
	}
	copy_both_ways(5);
	CHECK(!pthread_join(t, NULL));
	CHECK(waitpid(child, &status, 0) == child);
	if (!WIFEXITED(status)) {
		fprintf(stderr, "delay %ld ns: the child ended with status %#x\n", delay, status);
		exit(1);
	}
	exit(WEXITSTATUS(status));
}

/*
 * Forks at once, where either may win, and at 250 points in time spread over the first load. Where that takes long, as on a GPU,
 * there are fewer of both.
 */
static void race(void)
{
	int works = 0, refused = 0;
	long longest = 0;

	for (int i = 0; i < 3; i++) { /* how long a first call takes */
		long start = now_ns();
		pid_t child = forked();
		if (!child) {
			copy_both_ways(1);
			_exit(0);
		}
		ends_with(0, child);
		longest = now_ns() - start;
	}
	long most = 20000000000 / (2 * longest + 1); /* a race has two first calls: 20 s, or a little more */
	int races = most > 300 ? 300 : most < 8 ? 8 : (int)most, at_once = races / 6;
	for (int i = 0; i < races; i++) {
		int status;
		pid_t child = forked();
		if (!child)
			one_race(i < at_once ? 0 : longest * (i - at_once) / (races - at_once), i % 2);
		CHECK(waitpid(child, &status, 0) == child);
		CHECK(WIFEXITED(status));
		works += WEXITSTATUS(status) == 10;
		refused += WEXITSTATUS(status) == 11;
		CHECK(works + refused == i + 1);
	}
	printf("%d children worked, %d were refused\n", works, refused);
}

/* A process that has used the library starts others that use it. */
static void spawned(void)
{
	int stop = 0;
	pthread_t copying;
	char command[4096];

	copy_both_ways(1);
	CHECK(!pthread_create(&copying, NULL, keeps_copying, &stop));
	char *child_arguments[] = {arguments[0], "child", NULL};
	for (int i = 0; i < 5; i++) {
		pid_t child = fork();
		if (!child) {
			execv(arguments[0], child_arguments);
			_exit(9);
		}
		ends_with(0, child);
		child = vfork();
		if (!child) {
			execv(arguments[0], child_arguments);
			_exit(9);
		}
		ends_with(0, child);
		CHECK(!posix_spawn(&child, arguments[0], NULL, NULL, child_arguments, environ));
		ends_with(0, child);
		snprintf(command, sizeof command, "'%s' child", arguments[0]);
		CHECK(system(command) == 0);
		snprintf(command, sizeof command, "'%s' child && echo done", arguments[0]);
		FILE *pipe = popen(command, "r");
		CHECK(pipe && fgets(command, sizeof command, pipe) && !strcmp(command, "done\n"));
		CHECK(pclose(pipe) == 0);
		copy_both_ways(2);
	}
	__atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
	CHECK(!pthread_join(copying, NULL));
}

static void child(void)
{
	copy_both_ways(6);
}

static const struct mode modes[] = {
	{"before", before}, {"after", after}, {"thread", thread}, {"callback", callback}, {"race", race}, {"spawned", spawned}, {"child", child},
};

int main(int argc, char **argv)
{
	arguments = argv;
	RUN_MODE(modes, argc, argv);
}
