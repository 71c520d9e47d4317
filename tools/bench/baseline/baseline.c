/* What the software device is measured against: glibc's memcpy, by one thread and by two, timed from inside. */
#include <pthread.h>
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
