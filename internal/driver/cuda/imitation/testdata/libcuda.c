/* An imitation of libcuda.so.1 on ordinary memory, so that whole programs run with ROPEWAY_DRIVER=cuda where there is no GPU:
 *	gcc -shared -fPIC -O1 -Wl,-soname,libcuda.so.1 -o libcuda.so.1 libcuda.c -lpthread
 *	LD_PRELOAD=$PWD/libcuda.so.1 ROPEWAY_DRIVER=cuda program
 * A stream is a thread, device memory is memory that the host reaches by another address only, and the kernels are written
 * again below; those of programs are in modules.h. What the real library refuses, a call without a current context, memory that overlaps, is refused too, or ends
 * the process with a line that says so. It is as trying as the real one: its threads take the signals that its callers do, and it
 * wants a pthread key. FAKE_CUDA_GPUS is how many GPUs there are (1). With FAKE_CUDA_END the library ends when exit comes to the
 * handlers that were there before it. FAKE_CUDA_SLOW is how many milliseconds a new context takes; no signal interrupts that. With
 * FAKE_CUDA_PACE=N every other order of a stream takes up to N microseconds more. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

typedef int result;
typedef uint64_t address;
enum { success = 0, invalid = 1, no_memory = 2, ended = 4, no_context = 201, not_found = 500, not_ready = 600, registered = 712, not_registered = 713, unknown = 999 };
enum { page = 4096, most_gpus = 16 };
#define TOTAL ((uint64_t)8 << 30)
#define EXPORT __attribute__((visibility("default")))
#define BUG(text) (fprintf(stderr, "imitation of libcuda: %s: %s\n", __func__, text), abort())

static pthread_mutex_t all = PTHREAD_MUTEX_INITIALIZER; /* guards everything that has no mutex of its own */
static struct context { int users; uint64_t live; volatile result broken; } contexts[most_gpus];
static __thread struct context *current;
static pthread_key_t state; /* what is kept of a thread */

/* block is memory that was allocated or registered. */
struct block { struct block *next; address start; uint64_t size, mapped; struct context *of; int kind, shared, opened; uint64_t from[2]; };
static struct block *blocks;
enum { on_device, pinned, host, managed, foreign };

struct event { struct context *of; pthread_mutex_t lock; pthread_cond_t changed; uint64_t recorded, happened; struct timespec at; };
struct plane { size_t src_x, src_y; unsigned src_type; const void *src_host; address src; void *src_array; size_t src_pitch;
	size_t dst_x, dst_y; unsigned dst_type; void *dst_host; address dst; void *dst_array; size_t dst_pitch, width, height; };
struct order {
	struct order *next;
	void (*run)(struct order *);
	address dst, src;
	uint64_t n;
	unsigned value;
	struct plane plane;
	struct event *event;
	char params[128];
	void *large; /* parameters that are longer, of malloc */
	unsigned blocks[3], threads[3];
};
struct stream { struct stream *next; struct context *of; pthread_mutex_t lock; pthread_cond_t changed; pthread_t thread; struct order *first, **last; int busy, closed; };
static struct stream *streams;                               /* guarded by listed */
static pthread_mutex_t listed = PTHREAD_MUTEX_INITIALIZER; /* held while streams are waited for, which may need all */

/* Device memory: the host cannot reach an address there, only what is WINDOW above it. No address is given out twice. */
#define WINDOW ((address)4 << 40)
static address window, unused;
static int backing = -1; /* a file with all of it, which other processes can map; -1 where there is none */

/* Addresses outside the window that a program has chosen for device memory, each with what to add to reach it. */
static struct chosen { volatile address start, n, delta; } chosen[64];
static volatile int choices;

static void *at(address a)
{
	if (window && a - window < WINDOW) return (void *)(uintptr_t)(a + WINDOW);
	for (int i = 0; i < choices; i++)
		if (a - chosen[i].start < chosen[i].n) return (void *)(uintptr_t)(a + chosen[i].delta);
	return (void *)(uintptr_t)a;
}
static int gpus(void) { const char *text = getenv("FAKE_CUDA_GPUS"); return text ? atoi(text) : 1; }
static pid_t process;     /* that started the library */
static volatile int over; /* exit has come to it */
#define NEED_CONTEXT do { if (over) return ended; if (!current) return no_context; } while (0)

static void *work(void *arg)
{
	struct stream *s = arg;
	const char *pace = getenv("FAKE_CUDA_PACE");
	unsigned most = pace ? atoi(pace) : 0, random = (uintptr_t)s >> 4;
	pthread_mutex_lock(&s->lock);
	for (;;) {
		while (!s->first && !s->closed) pthread_cond_wait(&s->changed, &s->lock);
		struct order *o = s->first;
		if (!o) break;
		if (!(s->first = o->next)) s->last = &s->first;
		s->busy = 1;
		pthread_mutex_unlock(&s->lock);
		random = random * 1664525 + 1013904223;
		if (most && random >> 31) usleep((random >> 8) % most);
		o->run(o);
		free(o);
		pthread_mutex_lock(&s->lock);
		s->busy = 0;
		pthread_cond_broadcast(&s->changed);
	}
	pthread_mutex_unlock(&s->lock);
	return NULL;
}

static result put(struct stream *s, struct order o)
{
	NEED_CONTEXT;
	if (current->broken) return current->broken;
	if (!s) BUG("the default stream is used");
	struct order *copy = malloc(sizeof *copy);
	*copy = o;
	copy->next = NULL;
	pthread_mutex_lock(&s->lock);
	*s->last = copy;
	s->last = &copy->next;
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->lock);
	return success;
}

static void settle(struct stream *s)
{
	pthread_mutex_lock(&s->lock);
	while (s->first || s->busy) pthread_cond_wait(&s->changed, &s->lock);
	pthread_mutex_unlock(&s->lock);
}

/* drain waits for all streams, as freeing does. */
static void drain(void)
{
	pthread_mutex_lock(&listed);
	for (struct stream *s = streams; s; s = s->next) settle(s);
	pthread_mutex_unlock(&listed);
}

/* end is the end of the library in a process that exits: what was given to streams is done, nothing more is taken. */
static void end(void)
{
	if (getpid() != process) return; /* a child has none of the threads */
	over = 1;
	drain();
}

EXPORT result cuInit(unsigned flags)
{
	(void)flags;
	pthread_mutex_lock(&all);
	if (!window) {
		process = getpid();
		if (pthread_key_create(&state, free)) BUG("there is no pthread key left");
		if (getenv("FAKE_CUDA_END")) atexit(end);
		void *m = mmap(NULL, 2 * WINDOW, PROT_NONE, MAP_ANONYMOUS | MAP_PRIVATE | MAP_NORESERVE, -1, 0);
		if (m != MAP_FAILED) window = unused = (uintptr_t)m;
		backing = memfd_create("imitated-gpus", MFD_CLOEXEC);
		if (backing >= 0 && ftruncate(backing, WINDOW)) backing = -1;
	}
	pthread_mutex_unlock(&all);
	return window ? success : no_memory;
}

EXPORT result cuDriverGetVersion(int *version) { *version = 13000; return success; }
EXPORT result cuDeviceGetCount(int *count) { *count = gpus(); return success; }
EXPORT result cuDeviceGet(int *device, int number) { *device = number; return number < gpus() ? success : 101; }
EXPORT result cuDeviceGetName(char *name, int size, int device) { snprintf(name, size, "imitation %d", device); return success; }
EXPORT result cuDeviceGetAttribute(int *value, int attribute, int device) { (void)device; *value = attribute == 16 ? 4 : attribute == 75 ? 9 : attribute == 76 ? 0 : 1; return success; }
EXPORT result cuGetErrorName(result r, const char **name) { *name = r == no_memory ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_IMITATED"; return success; }
EXPORT result cuGetErrorString(result r, const char **text) { (void)r; *text = "said by an imitation of libcuda"; return success; }

static void *handle_events(void *unused)
{
	for (;;) pause();
	return unused;
}

/* begin does what takes long with a new context. */
static void begin(void)
{
	sigset_t every, before;
	const char *slow = getenv("FAKE_CUDA_SLOW");
	pthread_t thread;
	if (pthread_create(&thread, NULL, handle_events, NULL)) BUG("there is no thread");
	sigfillset(&every);
	pthread_sigmask(SIG_SETMASK, &every, &before);
	usleep(slow ? atoi(slow) * 1000 : 0);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

EXPORT result cuDevicePrimaryCtxRetain(struct context **c, int device)
{
	pthread_mutex_lock(&all);
	*c = &contexts[device];
	if ((*c)->users++ == 0) begin();
	pthread_mutex_unlock(&all);
	return success;
}

EXPORT result cuDevicePrimaryCtxRelease_v2(int device)
{
	pthread_mutex_lock(&all);
	int users = contexts[device].users--;
	pthread_mutex_unlock(&all);
	return users > 0 ? success : invalid;
}


EXPORT result cuCtxSetCurrent(struct context *c)
{
	if (!pthread_getspecific(state)) pthread_setspecific(state, calloc(1, 4096));
	current = c;
	return over ? ended : success;
}

EXPORT result cuCtxSynchronize(void) { NEED_CONTEXT; drain(); return current->broken; }
EXPORT result cuCtxEnablePeerAccess(struct context *c, unsigned flags) { (void)flags; NEED_CONTEXT; return c ? success : invalid; }
EXPORT result cuCtxGetStreamPriorityRange(int *least, int *greatest) { NEED_CONTEXT; *least = 0; *greatest = -5; return success; }

EXPORT result cuMemGetInfo_v2(uint64_t *free, uint64_t *total)
{
	NEED_CONTEXT;
	pthread_mutex_lock(&all);
	*free = TOTAL - current->live - ((uint64_t)100 << 20);
	*total = TOTAL;
	pthread_mutex_unlock(&all);
	return success;
}

static int open_up(address start, uint64_t n, int kind)
{
	if (kind != on_device || backing < 0) return mprotect(at(start), n, PROT_READ | PROT_WRITE);
	return mmap(at(start), n, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, backing, start - window) == MAP_FAILED;
}

static result take(address *addr, uint64_t n, int kind)
{
	NEED_CONTEXT;
	uint64_t free, total, mapped = (n + 2 * page - 1) & -page; /* one page more, so that allocations do not touch */
	cuMemGetInfo_v2(&free, &total);
	if (n == 0) return invalid;
	if ((kind == on_device && n > free) || n > (uint64_t)16 << 30) return no_memory;
	pthread_mutex_lock(&all);
	address start = unused;
	if (kind != on_device) start = (uintptr_t)mmap(NULL, mapped, PROT_NONE, MAP_ANONYMOUS | MAP_PRIVATE | MAP_NORESERVE, -1, 0);
	else unused += mapped;
	if (start == (uintptr_t)MAP_FAILED || unused > window + WINDOW || open_up(start, mapped - page, kind)) {
		pthread_mutex_unlock(&all);
		return no_memory;
	}
	struct block *b = malloc(sizeof *b);
	*b = (struct block){.next = blocks, .start = start, .size = n, .mapped = mapped, .of = current, .kind = kind};
	blocks = b;
	if (kind == on_device) current->live += n;
	pthread_mutex_unlock(&all);
	*addr = start;
	return success;
}

static result drop(address addr, int kind)
{
	NEED_CONTEXT;
	drain();
	pthread_mutex_lock(&all);
	struct block **p = &blocks;
	while (*p && ((*p)->start != addr || (*p)->kind != kind)) p = &(*p)->next;
	struct block *b = *p;
	if (b) {
		*p = b->next;
		if (kind == on_device) {
			b->of->live -= b->size;
			mmap(at(b->start), b->mapped, PROT_NONE, MAP_ANONYMOUS | MAP_PRIVATE | MAP_NORESERVE | MAP_FIXED, -1, 0);
			if (backing >= 0 && !b->shared && fallocate(backing, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, b->start - window, b->mapped)) {}
		}
		if (kind == pinned || kind == managed) munmap(at(b->start), b->mapped);
		free(b);
	}
	pthread_mutex_unlock(&all);
	return b ? success : invalid;
}

EXPORT result cuMemAlloc_v2(address *addr, size_t n) { return take(addr, n, on_device); }
EXPORT result cuMemFree_v2(address addr)
{
	result r = drop(addr, on_device) ? drop(addr, managed) : success;
	return r ? r : current->broken;
}

EXPORT result cuMemAllocManaged(address *addr, size_t n, unsigned flags) { return flags == 1 ? take(addr, n, managed) : invalid; }
EXPORT result cuMemHostAlloc(address *addr, size_t n, unsigned flags) { (void)flags; return take(addr, n, pinned); }
EXPORT result cuMemFreeHost(address addr) { return drop(addr, pinned); }
EXPORT result cuMemHostUnregister(address addr) { return drop(addr, host) ? not_registered : success; }
EXPORT result cuMemHostGetDevicePointer_v2(address *device, address addr, unsigned flags) { (void)flags; *device = addr; return success; }

EXPORT result cuMemHostRegister_v2(address addr, size_t n, unsigned flags)
{
	(void)flags;
	NEED_CONTEXT;
	address first = addr & -page, end = (addr + n + page - 1) & -page;
	if (n > (uint64_t)16 << 30) return no_memory;
	if (msync(at(first), end - first, MS_ASYNC)) return invalid; /* something is not mapped */
	struct block *b = malloc(sizeof *b);
	pthread_mutex_lock(&all);
	for (struct block *o = blocks; o; o = o->next)
		if (o->kind == host && (o->start & -page) < end && first < o->start + o->size) {
			pthread_mutex_unlock(&all);
			free(b);
			return registered;
		}
	*b = (struct block){.next = blocks, .start = addr, .size = n, .of = current, .kind = host};
	blocks = b;
	pthread_mutex_unlock(&all);
	return success;
}

#include "memory.h"

EXPORT result cuStreamCreateWithPriority(struct stream **stream, unsigned flags, int priority)
{
	(void)flags, (void)priority;
	NEED_CONTEXT;
	struct stream *s = calloc(1, sizeof *s);
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->changed, NULL);
	s->last = &s->first;
	s->of = current;
	if (pthread_create(&s->thread, NULL, work, s)) return no_memory;
	pthread_mutex_lock(&listed);
	s->next = streams;
	streams = s;
	pthread_mutex_unlock(&listed);
	*stream = s;
	return success;
}

EXPORT result cuStreamDestroy_v2(struct stream *stream)
{
	NEED_CONTEXT;
	pthread_mutex_lock(&listed);
	struct stream **p = &streams;
	while (*p != stream) p = &(*p)->next;
	*p = stream->next;
	pthread_mutex_unlock(&listed);
	pthread_mutex_lock(&stream->lock);
	stream->closed = 1;
	pthread_cond_broadcast(&stream->changed);
	pthread_mutex_unlock(&stream->lock);
	pthread_join(stream->thread, NULL);
	free(stream);
	return success;
}

EXPORT result cuStreamQuery(struct stream *s)
{
	NEED_CONTEXT;
	pthread_mutex_lock(&s->lock);
	int busy = s->first || s->busy;
	pthread_mutex_unlock(&s->lock);
	return busy ? not_ready : s->of->broken;
}

EXPORT result cuStreamSynchronize(struct stream *s) { NEED_CONTEXT; settle(s); return s->of->broken; }

static void happen(struct order *o)
{
	pthread_mutex_lock(&o->event->lock);
	o->event->happened = o->n;
	clock_gettime(CLOCK_MONOTONIC, &o->event->at);
	pthread_cond_broadcast(&o->event->changed);
	pthread_mutex_unlock(&o->event->lock);
}

static void await(struct event *e, uint64_t number)
{
	pthread_mutex_lock(&e->lock);
	while (e->happened < number) pthread_cond_wait(&e->changed, &e->lock);
	pthread_mutex_unlock(&e->lock);
}

static uint64_t latest(struct event *e, int more)
{
	pthread_mutex_lock(&e->lock);
	uint64_t number = e->recorded += more;
	pthread_mutex_unlock(&e->lock);
	return number;
}

static void wait_for(struct order *o) { await(o->event, o->n); }

EXPORT result cuEventCreate(struct event **event, unsigned flags)
{
	(void)flags;
	NEED_CONTEXT;
	*event = calloc(1, sizeof **event);
	(*event)->of = current;
	pthread_mutex_init(&(*event)->lock, NULL);
	pthread_cond_init(&(*event)->changed, NULL);
	return success;
}

EXPORT result cuEventDestroy_v2(struct event *e) { (void)e; return success; } /* a stream may still wait for it */
EXPORT result cuEventRecord(struct event *e, struct stream *s) { return put(s, (struct order){.run = happen, .event = e, .n = latest(e, 1)}); }
EXPORT result cuStreamWaitEvent(struct stream *s, struct event *e, unsigned flags)
{
	(void)flags;
	return put(s, (struct order){.run = wait_for, .event = e, .n = latest(e, 0)});
}

EXPORT result cuEventSynchronize(struct event *e) { NEED_CONTEXT; await(e, latest(e, 0)); return e->of->broken; }

EXPORT result cuEventQuery(struct event *e)
{
	NEED_CONTEXT;
	pthread_mutex_lock(&e->lock);
	int done = e->happened == e->recorded;
	pthread_mutex_unlock(&e->lock);
	return done ? e->of->broken : not_ready;
}

EXPORT result cuEventElapsedTime(float *milliseconds, struct event *from, struct event *to)
{
	if (cuEventQuery(from) || cuEventQuery(to)) return not_ready;
	*milliseconds = (to->at.tv_sec - from->at.tv_sec) * 1e3 + (to->at.tv_nsec - from->at.tv_nsec) / 1e6;
	return success;
}

/* carry copies as a GPU does: pages that a program has taken away meanwhile are no fault, since they stay where they are. */
static void carry(address dst, address src, uint64_t n)
{
	struct iovec from = {at(src), n}, to = {at(dst), n};
	while (from.iov_len > 0) {
		ssize_t done = process_vm_writev(getpid(), &from, 1, &to, 1, 0);
		if (done <= 0) return;
		from.iov_base = (char *)from.iov_base + done, to.iov_base = (char *)to.iov_base + done;
		from.iov_len -= done, to.iov_len -= done;
	}
}

/* A word of device memory is read and written as a whole. */
static void copy(struct order *o)
{
	if (o->n != 8 || (o->dst | o->src) % 8) return carry(o->dst, o->src, o->n);
	uint64_t word = 0;
	if (at(o->src) != (void *)(uintptr_t)o->src) word = __atomic_load_n((uint64_t *)at(o->src), __ATOMIC_SEQ_CST);
	else carry((uintptr_t)&word, o->src, 8);
	if (at(o->dst) != (void *)(uintptr_t)o->dst) __atomic_store_n((uint64_t *)at(o->dst), word, __ATOMIC_SEQ_CST);
	else carry(o->dst, (uintptr_t)&word, 8);
}
static void fill8(struct order *o) { memset(at(o->dst), o->value, o->n); }
static void fill32(struct order *o) { for (uint64_t i = 0; i < o->n; i++) ((uint32_t *)at(o->dst))[i] = o->value; }
static void copy_plane(struct order *o)
{
	for (size_t i = 0; i < o->plane.height; i++)
		carry(o->plane.dst + i * o->plane.dst_pitch, o->plane.src + i * o->plane.src_pitch, o->plane.width);
}

EXPORT result cuMemcpyAsync(address dst, address src, size_t n, struct stream *s)
{
	if (dst < src + n && src < dst + n) BUG("source and destination overlap");
	return put(s, (struct order){.run = copy, .dst = dst, .src = src, .n = n});
}

/* attributes of a batch: when sources are read (1: in the stream's order), and hints. */
struct attributes { unsigned order, hints[5]; };

EXPORT result cuMemcpyBatchAsync_v2(const address *dsts, const address *srcs, const size_t *sizes, size_t count,
	const struct attributes *attributes, const size_t *first, size_t kinds, struct stream *s)
{
	if (count == 0 || kinds != 1 || first[0] != 0 || attributes->order != 1) return invalid;
	for (size_t i = 0; i < count; i++)
		if (sizes[i] == 0) return invalid;
	result r = success;
	for (size_t i = 0; i < count && !r; i++) r = cuMemcpyAsync(dsts[i], srcs[i], sizes[i], s);
	return r;
}

EXPORT result cuMemcpy2DAsync_v2(const struct plane *p, struct stream *s)
{
	if (p->width > p->dst_pitch || p->width > p->src_pitch) return invalid;
	return put(s, (struct order){.run = copy_plane, .plane = *p});
}

EXPORT result cuMemsetD8Async(address dst, unsigned char value, size_t n, struct stream *s)
{
	return put(s, (struct order){.run = fill8, .dst = dst, .value = value, .n = n});
}

EXPORT result cuMemsetD32Async(address dst, unsigned value, size_t n, struct stream *s)
{
	return dst % 4 ? invalid : put(s, (struct order){.run = fill32, .dst = dst, .value = value, .n = n});
}

/* The kernels; ../kernels/kernels.go has their parameters. */

struct found { address dst, src; uint64_t bytes; uint32_t status, unused; };
struct live { uint64_t count; struct { address start, end; } ranges[]; };

/* Entries may be written while the kernel runs: each is there when both words have the tag. */
static void gather(struct order *o)
{
	struct { address table; uint32_t count, run, tag; } *p = (void *)o->params;
	volatile uint64_t (*entry)[2] = at(p->table);
	uint64_t low = ((uint64_t)1 << 48) - 1;
	for (uint32_t i = 0; i < p->count; i++) {
		uint64_t to, from;
		while (to = entry[i][0], from = entry[i][1], to >> 58 != p->tag || from >> 58 != p->tag) sched_yield();
		memcpy(at(to & low), at(from & low), (to >> 48 & 1023) | (from >> 48 & 1023) << 10);
	}
}

static void few(struct order *o)
{
	struct { uint32_t count, size; uint64_t dst[160], src[160]; uint32_t bytes[160]; } *p = o->large;
	for (uint32_t i = 0; i < p->count; i++) memcpy(at(p->dst[i]), at(p->src[i]), p->bytes[i]);
	free(p);
}

static int is_live(const struct live *l, address addr, uint64_t n)
{
	for (uint64_t i = 0; i < l->count; i++)
		if (addr >= l->ranges[i].start && addr < l->ranges[i].end) return n <= l->ranges[i].end - addr;
	return 0;
}

static void judge(struct found f, address live_at, address found_at, address report)
{
	const struct live *l = at(*(volatile uint64_t *)at(live_at));
	f.status = !is_live(l, f.src, f.bytes) ? 1 : !is_live(l, f.dst, f.bytes) ? 2 : 0;
	*(struct found *)at(found_at) = f;
	*(volatile uint32_t *)at(report) = f.status;
}

static void descriptor(struct order *o)
{
	struct { address from; uint32_t length, src, dst, unused; address live, found, report; } *p = (void *)o->params;
	struct found f = {0};
	memcpy(&f.bytes, at(p->from + p->length), 4);
	memcpy(&f.src, at(p->from + p->src), 8);
	memcpy(&f.dst, at(p->from + p->dst), 8);
	judge(f, p->live, p->found, p->report);
}

static void offset(struct order *o)
{
	struct { address dst, src; uint64_t dst_offset, src_offset, bytes; address live, found, report; } *p = (void *)o->params;
	struct found f = {.bytes = p->bytes};
	memcpy(&f.src, at(p->src), 8);
	memcpy(&f.dst, at(p->dst), 8);
	f.src += p->src_offset, f.dst += p->dst_offset;
	judge(f, p->live, p->found, p->report);
}

static void move(struct order *o)
{
	struct found *f = at(*(address *)o->params);
	if (f->status == 0) memmove(at(f->dst), at(f->src), f->bytes);
}

#include "modules.h"
#include "graphs.h"
