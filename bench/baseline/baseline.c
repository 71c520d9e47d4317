/* What the software device is measured against: glibc's memcpy, by one thread and by two, timed from inside. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

static int64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* One memcpy of n bytes; returns nanoseconds. */
int64_t copy_one(void *dst, const void *src, size_t n) {
    int64_t t = now();
    memcpy(dst, src, n);
    return now() - t;
}

struct half { void *dst; const void *src; size_t n; };

static void *copy_half(void *p) {
    struct half *h = p;
    memcpy(h->dst, h->src, h->n);
    return NULL;
}

/* The same by two threads, half each; the second thread's start is not counted, its end is. */
struct gate { pthread_barrier_t start; struct half h; };

static void *gated_half(void *p) {
    struct gate *g = p;
    pthread_barrier_wait(&g->start);
    return copy_half(&g->h);
}

int64_t copy_two(void *dst, const void *src, size_t n) {
    struct gate g = {.h = {(char *)dst + n / 2, (const char *)src + n / 2, n - n / 2}};
    struct half mine = {dst, src, n / 2};
    pthread_t other;
    pthread_barrier_init(&g.start, NULL, 2);
    pthread_create(&other, NULL, gated_half, &g);
    pthread_barrier_wait(&g.start);
    int64_t t = now();
    copy_half(&mine);
    pthread_join(other, NULL);
    t = now() - t;
    pthread_barrier_destroy(&g.start);
    return t;
}

/* count copies of n bytes each, one after the other. */
int64_t copy_loop(void **dsts, void **srcs, size_t n, size_t count) {
    int64_t t = now();
    for (size_t i = 0; i < count; i++) memcpy(dsts[i], srcs[i], n);
    return now() - t;
}

/* The same by several threads, a part each. Their start is not counted: they are there, and wait for the word by looking. */
struct crowd { atomic_int ready, go, left; };
struct part { void **dsts, **srcs; size_t n, count; struct crowd *crowd; };

static void *copy_part(void *p) {
    struct part *a = p;
    atomic_fetch_add(&a->crowd->ready, 1);
    while (!atomic_load(&a->crowd->go)) sched_yield();
    copy_loop(a->dsts, a->srcs, a->n, a->count);
    atomic_fetch_sub(&a->crowd->left, 1);
    return NULL;
}

int64_t copy_loops(void **dsts, void **srcs, size_t n, size_t count, size_t threads) {
    struct crowd crowd = {0};
    pthread_t thread[64];
    struct part part[64];
    if (threads > 64) threads = 64;
    atomic_store(&crowd.left, (int)threads - 1);
    for (size_t i = 0; i < threads; i++) {
        size_t from = count * i / threads, to = count * (i + 1) / threads;
        part[i] = (struct part){dsts + from, srcs + from, n, to - from, &crowd};
        if (i > 0 && pthread_create(&thread[i], NULL, copy_part, &part[i])) return -1;
    }
    while (atomic_load(&crowd.ready) < (int)threads - 1) sched_yield();
    int64_t t = now();
    atomic_store(&crowd.go, 1);
    copy_loop(part[0].dsts, part[0].srcs, n, part[0].count);
    while (atomic_load(&crowd.left)) sched_yield();
    t = now() - t;
    for (size_t i = 1; i < threads; i++) pthread_join(thread[i], NULL);
    return t;
}
