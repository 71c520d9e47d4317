/*
 * What the programs share that prove the API table through the library: the codes of the table, threads, streams that
 * wait, and memory of every kind.
 *
 * rules.h is made by the test from the table, so that no program says a code that the table says:
 *
 *     RULE("aclrtMemcpy", "dst-null")     prints "rule aclrtMemcpy dst-null" if the block holds at least one EXPECT
 *         EXPECT(aclrtMemcpy(NULL, ...)); the call ends as the rule says, and so does the last error of the thread
 *
 *     FUNCTION("aclrtMalloc") {           prints "function aclrtMalloc" if the block holds both
 *         EFFECT(p != NULL);              what the function did, and
 *         REFUSES("devPtr-null", aclrtMalloc(NULL, 1, 0)); one of its rules (or EDGE, for functions that have none), unless cases.c does
 *     }
 */
#ifndef PROOF_H
#define PROOF_H

#include <acl/acl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>
#ifdef __SANITIZE_THREAD__ /* knows POSIX threads only */
#include <pthread.h>
#else
#include <threads.h>
#endif
#include "check.h"
#include "rules.h" /* struct rule { function, name, code, quiet, cased } table[] */

/* --- Rules --- */

/* proof is what is being proven. The programs prove one thing at a time, on whatever thread. */
struct proof {
	const char *function;
	const char *rule;  /* NULL for a function */
	int code;          /* what EXPECT wants */
	bool quiet;        /* it does not become the last error */
	int seen, refused; /* what has held so far */
};
extern struct proof proof;

static inline const struct rule *rule_of(const char *function, const char *name)
{
	for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
		if (strcmp(table[i].name, name) == 0 && strcmp(table[i].function, function) == 0)
			return &table[i];
	fprintf(stderr, "the table has no rule %s of %s\n", name, function);
	exit(1);
}

/* From here on EXPECT wants what this rule says. */
static inline void like(const char *function, const char *name)
{
	const struct rule *r = rule_of(function, name);
	proof.code = r->code;
	proof.quiet = r->quiet;
}

static inline bool proof_begin(const char *function, const char *rule)
{
	proof = (struct proof){.function = function, .rule = rule};
	if (rule != NULL)
		like(function, rule);
	for (size_t i = 0; rule == NULL && i < sizeof table / sizeof table[0]; i++)
		if (table[i].cased && strcmp(table[i].function, function) == 0)
			proof.refused = 1; /* cases.c shows that it refuses something */
	return true;
}

static inline bool proof_end(void)
{
	if (proof.seen == 0 || (proof.rule == NULL && proof.refused == 0)) {
		fprintf(stderr, "%s %s: nothing was proven\n", proof.function, proof.rule != NULL ? proof.rule : "");
		exit(1);
	}
	if (proof.rule != NULL)
		printf("rule %s %s\n", proof.function, proof.rule);
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
		fprintf(stderr, "%s:%d: %s %s: %s returned %d and left the last error %d, want %d and %d\n",
			file, line, proof.function, proof.rule != NULL ? proof.rule : "", call, got, last, want, left);
		exit(1);
	}
	if (want > 0 && (text == NULL || strstr(text, proof.function) == NULL)) {
		fprintf(stderr, "%s:%d: the message does not name %s: %s\n", file, line, proof.function, text != NULL ? text : "(null)");
		exit(1);
	}
	(void)aclrtGetLastError(ACL_RT_THREAD_LEVEL);
}

#define RULE(function, name) \
	for (bool proof_open = proof_begin(function, name); proof_open; proof_open = proof_end())

#define EXPECT(call) \
	do { \
		proof_forget(); \
		int proof_got = (call); \
		proof_answer(proof_got, proof.code, proof.quiet, #call, __FILE__, __LINE__); \
		proof.seen++; \
	} while (0)

#define FUNCTION(name) RULE(name, NULL)

#define EFFECT(condition) \
	do { \
		CHECK(condition); \
		proof.seen++; \
	} while (0)

#define REFUSES(rule, call) \
	do { \
		like(proof.function, rule); \
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
	aclrtContext home, other, away;                          /* primary; of device 0; of device 1 */
	aclrtStream stream, foreign, gone;                       /* of home; of other; destroyed */
};
extern struct scene scene;

static inline void scene_make(void)
{
	OK(aclInit(NULL));
	OK(aclrtSetDevice(0));
	OK(aclrtGetCurrentContext(&scene.home));
	OK(aclrtCreateStream(&scene.stream));
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
}

/* Let go of the text that the library keeps until the next call: leak checkers do not see that it knows where it is. */
static inline void drop_message(void)
{
	while (aclGetRecentErrMsg() != NULL)
		;
}

static inline void scene_drop(void)
{
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
	OK(aclrtDestroyStream(scene.stream));
	drop_message();
	OK(aclrtResetDevice(0));
	OK(aclFinalize());
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

/* Put a task on a stream that fails with 507013 when it runs: the kind calls pageable memory device memory. */
static inline void fail_on(aclrtStream stream)
{
	OK(aclrtMemcpyAsync(scene.dev[PLACES - 1], 64, scene.page[PLACES - 1], 64, ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
}

#endif
