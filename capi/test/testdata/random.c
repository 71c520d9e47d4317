/*
 * Runs a program of internal/randprog, which says what its lines mean: random FILE [PTX]. The kernel is a function of this program, or
 * that of the file PTX. Exits with 1 at a wrong result or byte. If no line returns for PATIENCE seconds it prints "stuck" and
 * how many lines each thread has returned from, and exits with 99.
 */
#define _GNU_SOURCE
#include <acl/acl.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <libgen.h>
#include <pthread.h>
#include <ropeway/kernel.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { most_args = 12, most_threads = 8 };

typedef struct arg {
	char kind; /* of the operand: n # & [ @ */
	uint64_t number;
	uint32_t slot, count; /* of an array: number of its elements, which come first in list */
	struct arg *list;
	uint64_t *words;
} arg;

typedef uint64_t function(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
			  uint64_t);

typedef struct line {
	const char *name, *text;
	function *call;
	int count, until, any;
	int32_t code;
	arg args[most_args];
	uint64_t wait; /* of until */
} line;

static struct {
	line *lines;
	int count;
	atomic_int returned;
	pthread_t thread;
} threads[most_threads];

static int thread_count;
static uint64_t *slots;
static const char *ptx;
static pthread_t reporter;
static atomic_int over, moved;
static char *guard; /* a page that is there, and one that is not */

#define FAIL(...) (flockfile(stderr), fprintf(stderr, __VA_ARGS__), fputc('\n', stderr), _exit(1))

/* The threads that wait in after. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

static void host_function(void *data)
{
	uint64_t *a = data;

	if (!a)
		return;
	if (a[0] == 0)
		usleep(a[2]);
	for (uint64_t i = 0; a[0] == 1 && i < a[2]; i++)
		((char *)a[1])[i] += a[3];
}

static uint64_t nothing(void) { return 0; }

static int idle(const ropeway_block *block, void *unused)
{
	(void)block;
	(void)unused;
	return 0;
}

static int mix(const ropeway_block *block, void *unused)
{
	const uint64_t *a = block->args;
	uint8_t *to = (uint8_t *)a[0];
	const uint8_t *from = (const uint8_t *)a[1];

	(void)unused;
	for (uint64_t i = block->idx; i < a[2]; i += block->num)
		to[i] += from[i] * (uint8_t)a[3] + (uint8_t)i;
	return 0;
}

static void pattern(uint8_t *p, uint64_t n, uint64_t x)
{
	for (uint64_t i = 0; i < n; i += 8) {
		x = x * 6364136223846793005u + 1442695040888963407u;
		uint64_t word = x ^ x >> 29;
		memcpy(p + i, &word, n - i < 8 ? n - i : 8);
	}
}

static uint64_t hash(const uint8_t *p, uint64_t n)
{
	uint64_t h = 14695981039346656037u, word;

	for (; n >= 8; n -= 8, p += 8) {
		memcpy(&word, p, 8);
		h = (h ^ word) * 1099511628211u;
		h ^= h >> 32;
	}
	for (; n; n--)
		h = (h ^ *p++) * 1099511628211u;
	return h;
}

static void *report(void *unused)
{
	while (!over)
		aclrtProcessReport(20);
	return unused;
}

/* The functions that are none of the library. */
static uint64_t after_(uint64_t thread, uint64_t count)
{
	pthread_mutex_lock(&mutex);
	while (threads[thread].returned < (int)count)
		pthread_cond_wait(&changed, &mutex);
	pthread_mutex_unlock(&mutex);
	return 0;
}

static uint64_t set_(uint64_t *slot, uint64_t value) { return *slot = value, 0; }
static uint64_t malloc_(void **slot, uint64_t n) { return posix_memalign(slot, 4096, n); }
static uint64_t free_(void *p) { return free(p), 0; }
static uint64_t write_(uint8_t *p, uint64_t n, uint64_t x) { return pattern(p, n, x), 0; }
static uint64_t check_(uint8_t *p, uint64_t n, uint64_t x) { return hash(p, n) == x ? 0 : 1; }

static uint64_t load_(void **slot)
{
	ropeway_function list = {"mix", mix, NULL};
	return ptx ? aclrtBinaryLoadFromFile(ptx, NULL, slot) : ropeway_load_functions(&list, 1, slot);
}

static uint64_t load_idle_(void **slot)
{
	ropeway_function list = {"idle", idle, NULL};
	return ropeway_load_functions(&list, 1, slot);
}

static const struct {
	const char *name;
	void *call;
} own[] = {{"after", after_}, {"set", set_}, {"malloc", malloc_}, {"free", free_}, {"write", write_}, {"check", check_}, {"load", load_}, {"idle", load_idle_}};

static void *lookup(const char *name)
{
	for (size_t i = 0; i < sizeof own / sizeof *own; i++)
		if (strcmp(own[i].name, name) == 0)
			return own[i].call;
	void *call = dlsym(RTLD_DEFAULT, name);
	if (!call)
		FAIL("there is no %s", name);
	return call;
}

static arg parse(char **text)
{
	arg a = {0};
	char *word = strsep(text, " ");

	switch (a.kind = *word) {
	case '#':
		a.slot = strtoul(word + 1, &word, 10);
		a.number = *word ? strtoull(word + 1, NULL, 10) : 0;
		break;
	case '&':
		a.slot = strtoul(word + 1, NULL, 10);
		break;
	case '[':
		a.list = malloc(64 * sizeof a);
		while (**text != ']')
			a.list[a.count++] = parse(text);
		strsep(text, " ");
		a.words = calloc(a.count + 1, 8);
		break;
	case '@':
		a.kind = 'n';
		a.number = word[1] == 'f' ? (uintptr_t)host_function :
			   word[1] == 'n' ? (uintptr_t)nothing :
			   word[1] == 'r' ? (uintptr_t)reporter :
			   word[1] == 'g' ? (uintptr_t)guard + 4096 :
					    (uintptr_t)guard + 4096 - strtoul(word + 2, NULL, 10);
		break;
	case '"':
		a.kind = 'n';
		a.number = (uintptr_t)strndup(word + 1, strlen(word) - 2);
		break;
	default:
		a.kind = 'n';
		a.number = strtoull(word, NULL, 0);
	}
	return a;
}

static uint64_t value(const arg *a)
{
	switch (a->kind) {
	case '#':
		return slots[a->slot] + a->number;
	case '&':
		return (uintptr_t)&slots[a->slot];
	case '[':
		for (uint32_t i = 0; i < a->count; i++)
			a->words[i] = value(&a->list[i]);
		return (uintptr_t)a->words;
	}
	return a->number;
}

static void read_line(line *l, char *text)
{
	l->text = strdup(text);
	l->name = strsep(&text, " ");
	if (strcmp(l->name, "until") == 0) {
		l->until = 1;
		l->wait = strtoull(strsep(&text, " "), NULL, 10);
		l->name = strsep(&text, " ");
	}
	l->call = lookup(l->name);
	while (text && *text) {
		if (*text == '=') {
			l->any = text[2] == '*';
			l->code = atoi(text + 2);
			return;
		}
		l->args[l->count++] = parse(&text);
	}
}

static void *run(void *number)
{
	int me = (int)(intptr_t)number;

	for (int i = 0; i < threads[me].count; i++) {
		line *l = &threads[me].lines[i];
		uint64_t v[most_args] = {0};
		int32_t *status = NULL, code;
		for (int k = 0; k < l->count; k++) {
			v[k] = value(&l->args[k]);
			if (l->until && l->args[k].kind == '&')
				status = (int32_t *)v[k];
		}
		do
			code = (int32_t)l->call(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9], v[10], v[11]);
		while (status && code == 0 && *status != (int32_t)l->wait && !sched_yield());
		if (code != l->code && !l->any) {
			const char *message = aclGetRecentErrMsg();
			FAIL("thread %d, line %d: %s\nreturned %d, want %d\n%s", me, i + 1, l->text, code, l->code, message ? message : "");
		}
		pthread_mutex_lock(&mutex);
		threads[me].returned++;
		pthread_cond_broadcast(&changed);
		pthread_mutex_unlock(&mutex);
		moved++;
	}
	return NULL;
}

static void *watch(void *unused)
{
	const char *patience = getenv("PATIENCE");
	int limit = patience ? atoi(patience) : 60, last = -1, quiet = 0;

	for (;; sleep(1)) {
		quiet = moved == last ? quiet + 1 : 0;
		last = moved;
		if (quiet < limit)
			continue;
		fprintf(stderr, "stuck");
		for (int i = 0; i < thread_count; i++)
			fprintf(stderr, " %d", threads[i].returned);
		fputc('\n', stderr);
		_exit(99);
	}
	return unused;
}

int main(int argc, char **argv)
{
	static char product[32], devices[32], text[1 << 16];
	int slot_count;
	FILE *f = fopen(argv[1], "r");
	pthread_t dog;

	ptx = argc > 2 ? argv[2] : NULL;
	if (!f || fscanf(f, "%31s %31s %d %d ", product, devices, &thread_count, &slot_count) != 4)
		FAIL("no program");
	if (chdir(dirname(argv[1]))) /* random calls may write files */
		FAIL("no folder");
	setenv("ROPEWAY_PRODUCT", product, 1);
	setenv("ROPEWAY_DEVICES", devices, 1);
	guard = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	mprotect(guard + 4096, 4096, PROT_NONE);
	slots = calloc(slot_count + 4096, 8); /* more for calls that write lists */
	pthread_create(&reporter, NULL, report, NULL);
	while (fgets(text, sizeof text, f)) {
		char *rest;
		int t = (int)strtol(text, &rest, 10), n = threads[t].count++;
		text[strcspn(text, "\n")] = 0;
		if ((n & (n - 1)) == 0) {
			threads[t].lines = realloc(threads[t].lines, 2 * (n + 1) * sizeof(line));
			memset(threads[t].lines + n, 0, (2 * (n + 1) - n) * sizeof(line));
		}
		read_line(&threads[t].lines[n], rest + 1);
	}
	if (aclInit(NULL))
		FAIL("aclInit: %s", aclGetRecentErrMsg());
	pthread_create(&dog, NULL, watch, NULL);
	for (int i = 0; i < thread_count; i++)
		pthread_create(&threads[i].thread, NULL, run, (void *)(intptr_t)i);
	for (int i = 0; i < thread_count; i++)
		pthread_join(threads[i].thread, NULL);
	over = 1;
	pthread_join(reporter, NULL);
	int32_t code = aclFinalize();
	if (code)
		FAIL("aclFinalize: %d", code);
	return 0;
}
