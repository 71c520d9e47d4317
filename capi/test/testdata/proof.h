/*
 * What the programs share that prove the API table through the library: the codes of the table, threads, streams that
 * wait, and memory of every kind.
 *
 * rules.h is made by the test from the table, so that no program says a code that the table says:
 *
 *     RULE("aclrtMemcpy", 2)              prints "rule aclrtMemcpy 2" if the block holds at least one EXPECT
 *         EXPECT(aclrtMemcpy(NULL, ...)); the call ends as the rule says, and so does the last error of the thread
 *
 *     FUNCTION("aclrtMalloc") {           prints "function aclrtMalloc" if the block holds both
 *         EFFECT(p != NULL);              what the function did, and
 *         REFUSES(1, aclrtMalloc(NULL));  one of its rules (or EDGE, for functions that have none), unless cases.c does
 *     }
 */
#ifndef PROOF_H
#define PROOF_H

#include <acl/acl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#ifdef __SANITIZE_THREAD__ /* knows POSIX threads only */
#include <pthread.h>
#else
#include <threads.h>
#endif
#include "check.h"
#include "rules.h" /* struct rule { function, number, code, passed_on, quiet, cased } table[] */

/* --- Rules --- */

/* proof is what is being proven. The programs prove one thing at a time, on whatever thread. */
struct proof {
	const char *function;
	int number;        /* of the rule; 0 for a function */
	int code;          /* what EXPECT wants */
	bool known, quiet; /* there is a code; it does not become the last error */
	bool stranger;     /* expect() makes the call on a thread without a context */
	int seen, refused; /* what has held so far */
};
extern struct proof proof;

static inline const struct rule *rule_of(const char *function, int number)
{
	for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
		if (table[i].number == number && strcmp(table[i].function, function) == 0)
			return &table[i];
	fprintf(stderr, "the table has no rule %d of %s\n", number, function);
	exit(1);
}

/* From here on EXPECT wants what this rule says. */
static inline void like(const char *function, int number)
{
	const struct rule *r = rule_of(function, number);
	proof.code = r->code;
	proof.known = !r->passed_on;
	proof.quiet = r->quiet;
}

/* From here on EXPECT wants a code that the rule passes on. */
static inline void passed_on(int code)
{
	CHECK(!proof.known);
	proof.code = code;
	proof.known = true;
}

static inline bool proof_begin(const char *function, int number)
{
	proof = (struct proof){.function = function, .number = number};
	if (number > 0)
		like(function, number);
	for (size_t i = 0; number == 0 && i < sizeof table / sizeof table[0]; i++)
		if (table[i].cased && strcmp(table[i].function, function) == 0)
			proof.refused = 1; /* cases.c shows that it refuses something */
	return true;
}

static inline bool proof_end(void)
{
	if (proof.seen == 0 || (proof.number == 0 && proof.refused == 0)) {
		fprintf(stderr, "%s, rule %d: nothing was proven\n", proof.function, proof.number);
		exit(1);
	}
	if (proof.number > 0)
		printf("rule %s %d\n", proof.function, proof.number);
	else
		printf("function %s\n", proof.function);
	fflush(stdout);
	return false;
}

/* Forget earlier errors of the thread. */
static inline void proof_forget(void)
{
	(void)aclGetRecentErrMsg();
	(void)aclrtGetLastError(ACL_RT_THREAD_LEVEL);
}

/* Compare a result, the last error it leaves, and whether the message names the function. */
static inline void proof_answer(int got, int want, bool quiet, const char *call, const char *file, int line)
{
	int last = aclrtPeekAtLastError(ACL_RT_THREAD_LEVEL), range = want / 1000;
	int left = !quiet && (range == 107 || range == 207 || range == 507) ? want : 0;
	const char *text = aclGetRecentErrMsg();
	if (got != want || last != left) {
		fprintf(stderr, "%s:%d: %s rule %d: %s returned %d and left the last error %d, want %d and %d\n",
			file, line, proof.function, proof.number, call, got, last, want, left);
		exit(1);
	}
	if (want > 0 && (text == NULL || strstr(text, proof.function) == NULL)) {
		fprintf(stderr, "%s:%d: the message does not name %s: %s\n", file, line, proof.function, text != NULL ? text : "(null)");
		exit(1);
	}
	(void)aclrtGetLastError(ACL_RT_THREAD_LEVEL);
}

#define RULE(function, number) \
	for (bool proof_open = proof_begin(function, number); proof_open; proof_open = proof_end())

#define EXPECT(call) \
	do { \
		CHECK(proof.known); \
		proof_forget(); \
		int proof_got = (call); \
		proof_answer(proof_got, proof.code, proof.quiet, #call, __FILE__, __LINE__); \
		proof.seen++; \
	} while (0)

#define FUNCTION(name) RULE(name, 0)

#define EFFECT(condition) \
	do { \
		CHECK(condition); \
		proof.seen++; \
	} while (0)

#define REFUSES(number, call) \
	do { \
		like(proof.function, number); \
		EXPECT(call); \
		proof.refused++, proof.seen--; \
	} while (0)

#define EDGE(condition) \
	do { \
		CHECK(condition); \
		proof.refused++; \
	} while (0)

/* --- Threads --- */

struct thread {
	void (*body)(void *);
	void *arg;
#ifdef __SANITIZE_THREAD__
	pthread_t id;
#else
	thrd_t id;
#endif
};

#ifdef __SANITIZE_THREAD__
typedef pthread_mutex_t mtx_t;
typedef pthread_cond_t cnd_t;
#define mtx_plain NULL
#define mtx_init pthread_mutex_init
#define mtx_lock pthread_mutex_lock
#define mtx_unlock pthread_mutex_unlock
#define mtx_destroy pthread_mutex_destroy
#define cnd_init(c) pthread_cond_init(c, NULL)
#define cnd_wait pthread_cond_wait
#define cnd_broadcast pthread_cond_broadcast
#define cnd_destroy pthread_cond_destroy

static inline void *thread_main(void *p)
{
	struct thread *t = p;
	t->body(t->arg);
	return NULL;
}

static inline void thread_start(struct thread *t) { CHECK(pthread_create(&t->id, NULL, thread_main, t) == 0); }
static inline void thread_join(struct thread *t) { CHECK(pthread_join(t->id, NULL) == 0); }
#else
static inline int thread_main(void *p)
{
	struct thread *t = p;
	t->body(t->arg);
	return 0;
}

static inline void thread_start(struct thread *t) { CHECK(thrd_create(&t->id, thread_main, t) == thrd_success); }
static inline void thread_join(struct thread *t) { CHECK(thrd_join(t->id, NULL) == thrd_success); }
#endif

/* Run body on a thread of its own, which has no context, and wait for it. */
static inline void on_stranger(void (*body)(void *), void *arg)
{
	struct thread t = {.body = body, .arg = arg};
	thread_start(&t);
	thread_join(&t);
}

/*
 * The library orders a launch before its callback, and the callback before the synchronisation that waits for it.
 * ThreadSanitizer does not see into the library, so both sides say it: they meet() after taking over and before handing over.
 */
extern atomic_int meetings;

static inline void meet(void) { atomic_fetch_add(&meetings, 1); }

/* A gate holds threads until it is opened. */
struct gate {
	mtx_t lock;
	cnd_t changed;
	bool reached, open; /* guarded by lock */
};

static inline void gate_make(struct gate *g)
{
	memset(g, 0, sizeof *g);
	mtx_init(&g->lock, mtx_plain);
	cnd_init(&g->changed);
}

/* Wait at the gate: a host function. */
static inline void gate_hold(void *p)
{
	struct gate *g = p;
	meet();
	mtx_lock(&g->lock);
	g->reached = true;
	cnd_broadcast(&g->changed);
	while (!g->open)
		cnd_wait(&g->changed, &g->lock);
	mtx_unlock(&g->lock);
	meet();
}

/* Wait until a thread waits at the gate. */
static inline void gate_reached(struct gate *g)
{
	mtx_lock(&g->lock);
	while (!g->reached)
		cnd_wait(&g->changed, &g->lock);
	mtx_unlock(&g->lock);
}

static inline void gate_open(struct gate *g)
{
	mtx_lock(&g->lock);
	g->open = true;
	cnd_broadcast(&g->changed);
	mtx_unlock(&g->lock);
}

/* Nobody may be at the gate any more. */
static inline void gate_drop(struct gate *g)
{
	meet();
	mtx_destroy(&g->lock);
	cnd_destroy(&g->changed);
}

/* What follows on the stream waits until unblock, which also waits for the stream; it returns what came of it. */
static inline void block(struct gate *g, aclrtStream stream)
{
	gate_make(g);
	meet();
	OK(aclrtLaunchHostFunc(stream, gate_hold, g));
}

static inline int unblock(struct gate *g, aclrtStream stream)
{
	gate_open(g);
	int code = aclrtSynchronizeStream(stream);
	gate_drop(g);
	return code;
}

/* --- Scene --- */

enum { ROOM = 8192, PLACES = 4 };

/* The memory and the streams the proofs use; the thread that makes it has the primary context of device 0. */
struct scene {
	unsigned char *dev[PLACES], *pin[PLACES], *page[PLACES]; /* ROOM bytes each; page is pageable, at a multiple of 64 */
	unsigned char *far;                                      /* on device 1, without permission to reach it */
	unsigned char *hole;                                     /* pageable, three pages of which the second cannot be touched */
	aclrtContext home, other, away;                          /* primary; of device 0; of device 1 */
	aclrtStream stream, foreign, gone;                       /* of home; of other; destroyed */
	aclrtStream aborted;                                     /* for abort_begin */
};
extern struct scene scene;

static inline void scene_make(void)
{
	OK(aclInit(NULL));
	OK(aclrtSetDevice(0));
	OK(aclrtGetCurrentContext(&scene.home));
	OK(aclrtCreateStream(&scene.stream));
	OK(aclrtCreateStream(&scene.aborted));
	OK(aclrtCreateStream(&scene.gone));
	OK(aclrtDestroyStream(scene.gone));
	for (int i = 0; i < PLACES; i++) {
		OK(aclrtMalloc((void **)&scene.dev[i], ROOM, ACL_MEM_MALLOC_HUGE_FIRST));
		OK(aclrtMallocHost((void **)&scene.pin[i], ROOM));
		CHECK((scene.page[i] = aligned_alloc(64, ROOM)) != NULL);
	}
	OK(aclrtCreateContext(&scene.other, 0));
	OK(aclrtCreateStream(&scene.foreign));
	OK(aclrtCreateContext(&scene.away, 1));
	OK(aclrtMalloc((void **)&scene.far, ROOM, ACL_MEM_MALLOC_HUGE_FIRST));
	OK(aclrtSetCurrentContext(scene.home));
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	void *p = mmap(NULL, 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(p != MAP_FAILED);
	memset(p, 0x5A, 3 * page);
	scene.hole = p;
	CHECK(mprotect(scene.hole + page, page, PROT_NONE) == 0);
}

/* Let go of the text that the library keeps until the next call: leak checkers do not see that it knows where it is. */
static inline void drop_message(void)
{
	while (aclGetRecentErrMsg() != NULL)
		;
}

static inline void scene_drop(void)
{
	CHECK(munmap(scene.hole, 3 * (size_t)sysconf(_SC_PAGESIZE)) == 0);
	OK(aclrtFree(scene.far));
	OK(aclrtSetCurrentContext(scene.other));
	OK(aclrtDestroyStream(scene.foreign));
	OK(aclrtSetCurrentContext(scene.home));
	OK(aclrtDestroyContext(scene.other));
	OK(aclrtDestroyContext(scene.away));
	for (int i = 0; i < PLACES; i++) {
		OK(aclrtFree(scene.dev[i]));
		OK(aclrtFreeHost(scene.pin[i]));
		free(scene.page[i]);
	}
	OK(aclrtDestroyStream(scene.aborted));
	OK(aclrtDestroyStream(scene.stream));
	drop_message();
	OK(aclrtResetDevice(0));
	OK(aclFinalize());
}

/* Memory that was allocated and is not any more, as long as nothing else is allocated. */
static inline void *freed_device(void)
{
	void *p;
	OK(aclrtMalloc(&p, ROOM, ACL_MEM_MALLOC_HUGE_FIRST));
	OK(aclrtFree(p));
	return p;
}

static inline void *freed_pinned(void)
{
	void *p;
	OK(aclrtMallocHost(&p, ROOM));
	OK(aclrtFreeHost(p));
	return p;
}

/* A handle that is none. */
#define GARBAGE ((void *)0x123456789)

/* NO_CONTEXT { ... }: the thread has no context inside the block, and that of the scene after it. */
#define NO_CONTEXT for (bool context_gone = context_lose(); context_gone; context_gone = context_return())

static inline bool context_lose(void)
{
	aclrtContext c;
	OK(aclrtCreateContext(&c, 0));
	OK(aclrtDestroyContext(c)); /* the current one */
	return true;
}

static inline bool context_return(void)
{
	OK(aclrtSetCurrentContext(scene.home));
	return false;
}

/* What memory holds before a copy and after it: patterns that differ in every byte. */
enum { OLD = 40, NEW = 90 };

/* Write a pattern into all of a place. */
static inline void fill(void *p, unsigned seed)
{
	unsigned char bytes[ROOM];
	for (unsigned i = 0; i < ROOM; i++)
		bytes[i] = (unsigned char)(7 * i + seed);
	OK(aclrtMemcpy(p, ROOM, bytes, ROOM, ACL_MEMCPY_DEFAULT));
}

/* Whether n bytes from an offset on are those of a pattern at another offset. */
static inline bool holds_from(const void *p, size_t at, size_t n, unsigned seed, size_t from)
{
	unsigned char bytes[ROOM];
	OK(aclrtMemcpy(bytes, ROOM, (const unsigned char *)p + at, n, ACL_MEMCPY_DEFAULT));
	for (size_t i = 0; i < n; i++)
		if (bytes[i] != (unsigned char)(7 * (from + i) + seed))
			return false;
	return true;
}

static inline bool holds(const void *p, size_t n, unsigned seed) { return holds_from(p, 0, n, seed, 0); }

/* Whether what can be touched around the hole is as it was. */
static inline bool hole_is_whole(void)
{
	size_t n = 0, page = (size_t)sysconf(_SC_PAGESIZE);
	while (n < page && scene.hole[n] == 0x5A && scene.hole[2 * page + n] == 0x5A)
		n++;
	return n == page;
}

/* Put a task on a stream that fails with 507013 when it runs: the kind calls pageable memory device memory. */
static inline void fail_on(aclrtStream stream)
{
	OK(aclrtMemcpyAsync(scene.dev[PLACES - 1], 64, scene.page[PLACES - 1], 64, ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
}

/* --- Aborts --- */

struct abort {
	struct gate gate;
	struct thread thread;
};

static inline void abort_body(void *device) { OK(aclrtDeviceTaskAbort((int32_t)(intptr_t)device, 0)); }

/* Device 0 aborts its tasks until abort_end: it cannot end before the host function does. */
static inline void abort_begin(struct abort *a)
{
	block(&a->gate, scene.aborted);
	gate_reached(&a->gate);
	a->thread = (struct thread){.body = abort_body};
	thread_start(&a->thread);
	while (aclrtMemFlush(scene.dev[0], 1) == ACL_SUCCESS) /* the cheapest call that shows it */
		usleep(100);
}

static inline void abort_end(struct abort *a)
{
	gate_open(&a->gate);
	thread_join(&a->thread);
	gate_drop(&a->gate);
}

/* --- Families: functions whose arguments are spoiled one by one --- */

/* A family keeps its arguments itself: good makes them, spoil breaks one rule, call makes the call. */
struct family {
	const char *function;
	int last; /* the last rule that spoil knows */
	void (*good)(void);
	void (*spoil)(int rule);
	int (*call)(void);
};

static inline void expect_body(void *family) { EXPECT(((const struct family *)family)->call()); }

/* EXPECT of the family's call, on a thread without a context if the arguments were spoiled so. */
static inline void expect(const struct family *f)
{
	if (proof.stranger)
		on_stranger(expect_body, (void *)f);
	else
		expect_body((void *)f);
	proof.stranger = false;
}

/* Spoil rule k alone, and then all rules from k on: the result is k's both times. */
static inline void breaks(const struct family *f, int rule)
{
	f->good();
	f->spoil(rule);
	expect(f);
	f->good();
	for (int i = f->last; i >= rule; i--)
		f->spoil(i);
	expect(f);
}

static inline void prove(const struct family *f, int rule)
{
	RULE(f->function, rule)
		breaks(f, rule);
}

#endif
