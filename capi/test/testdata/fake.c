/* The shim in front of the fake core. The second argument is the fake core's file. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <sys/wait.h>

#include "calls.h"
#include "robust.h"

static const char *core_file;
static fake_last_function fake_last;
static fake_count_function fake_live, fake_quiets;
static _Thread_local int refused; /* what this thread expects */

/* The fake core is there once a call was made. */
static void find_core(void)
{
	(void)aclrtSetDevice(0);
	void *core = dlopen(core_file, RTLD_NOW | RTLD_NOLOAD);
	CHECK(core);
	*(void **)&fake_last = dlsym(core, "fake_last");
	*(void **)&fake_live = dlsym(core, "fake_live");
	*(void **)&fake_quiets = dlsym(core, "fake_quiets");
	CHECK(fake_last && fake_live && fake_quiets);
}

void fake_fill(void *bytes, unsigned long size, int argument)
{
	for (unsigned long i = 0; i < size; i++)
		((unsigned char *)bytes)[i] = (unsigned char)(argument * 71 + (int)i * 3 + 1);
}

static void arrived_refused(uint32_t function, const void *got, unsigned long size)
{
	static const unsigned char zero[8];
	int32_t code;

	if (function == ROPEWAY_aclGetRecentErrMsg) {
		CHECK(strstr(*(const char *const *)got, "forked"));
		return;
	}
	if (!fake_calls[function].returns_code) {
		CHECK(!size || !memcmp(got, zero, size)); /* 0, NULL or nothing */
		return;
	}
	CHECK(size == sizeof code);
	memcpy(&code, got, sizeof code);
	IS(ACL_ERROR_INTERNAL_ERROR, code);
}

void fake_arrived(uint32_t function, const uint64_t *want, uint32_t slots, const void *got, unsigned long size)
{
	if (refused) {
		arrived_refused(function, got, size);
		return;
	}
	const struct fake_call *c = fake_last();
	uint64_t result = FAKE_RESULT(function);
	uint32_t structs = 0;
	unsigned char bytes[FAKE_BYTES];

	CHECK(c && c->function == function && c->slots == slots);
	for (uint32_t i = 0; i < slots; i++) {
		if (want[i] == FAKE_STRUCT) {
			memset(bytes, 0, sizeof bytes);
			unsigned long n = sizeof bytes;
			while (n && !c->bytes[structs][n - 1]) /* what was not recorded is 0 */
				n--;
			fake_fill(bytes, n, (int)i);
			CHECK(n > 0 && !memcmp(bytes, c->bytes[structs], sizeof bytes));
			structs++;
		} else if (want[i] == FAKE_TEXT) {
			CHECK(!strcmp(c->text, "text 7"));
		} else if (c->slot[i] != want[i]) {
			fprintf(stderr, "function %u: slot %u is %#lx, want %#lx\n", function, i, (long)c->slot[i], (long)want[i]);
			exit(1);
		}
	}
	CHECK(structs == c->structs);
	CHECK(!memcmp(got ? got : &result, &result, size)); /* the low bytes, as this machine stores them first */
}

static void every_call(void)
{
	for (int i = 0; i < ROPEWAY_FUNCTIONS; i++) {
		if (refused && (i == ROPEWAY_aclrtMemcpyBatch || i == ROPEWAY_aclrtMemcpyBatchAsync))
			continue; /* a refusal writes failIndex, and here that is no address; TestFork proves it */
		fake_calls[i].send();
	}
}

static void calls(void)
{
	find_core();
	every_call();
	CHECK(fake_live() == 1 && fake_quiets() == 0);
}

/* Threads that come and go, some with work in their destructors. */
static pthread_key_t at_end;

static void end_of_thread(void *round)
{
	every_call();
	if (round == (void *)1)
		pthread_setspecific(at_end, (void *)2);
}

static void *comes_and_goes(void *seed)
{
	if ((intptr_t)seed % 3)
		every_call();
	if ((intptr_t)seed % 2)
		pthread_setspecific(at_end, (void *)1);
	return NULL;
}

static void threads(void)
{
	enum { waves = 5, at_once = 8 };
	pthread_t t[at_once];

	find_core();
	CHECK(!pthread_key_create(&at_end, end_of_thread));
	for (intptr_t i = 0; i < waves; i++) {
		for (intptr_t j = 0; j < at_once; j++)
			CHECK(!pthread_create(&t[j], NULL, comes_and_goes, (void *)(i * at_once + j)));
		for (int j = 0; j < at_once; j++)
			CHECK(!pthread_join(t[j], NULL));
	}
	CHECK(fake_live() == 1); /* this one */
}

/* Children are refused by every function; the parent goes on. */
static void forks(void)
{
	int status;

	find_core();
	for (int i = 0; i < 4; i++) {
		pid_t child = fork();
		CHECK(child >= 0);
		if (!child) {
			refused = 1;
			every_call();
			if (i % 2)
				exit(0);
			_exit(0);
		}
		every_call();
		CHECK(waitpid(child, &status, 0) == child);
		CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	}
}

/* The first calls of many threads, with forks in between. */
static pthread_barrier_t start;

static void *first_call(void *unused)
{
	pthread_barrier_wait(&start);
	aclrtSetDevice(0);
	return unused;
}

static void first(void)
{
	enum { n = 8 };
	pthread_t t[n];
	int status;

	pthread_barrier_init(&start, NULL, n + 1);
	for (int i = 0; i < n; i++)
		CHECK(!pthread_create(&t[i], NULL, first_call, NULL));
	pthread_barrier_wait(&start);
	pid_t child = fork();
	CHECK(child >= 0);
	if (!child) {
		alarm(120);
		aclrtSetDevice(0);
		_exit(0);
	}
	for (int i = 0; i < n; i++)
		CHECK(!pthread_join(t[i], NULL));
	CHECK(waitpid(child, &status, 0) == child && status == 0);
}

static const struct mode modes[] = {
	{"calls", calls}, {"threads", threads}, {"forks", forks}, {"first", first},
};

int main(int argc, char **argv)
{
	CHECK(argc == 3);
	core_file = argv[2];
	RUN_MODE(modes, argc, argv);
}
