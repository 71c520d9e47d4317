/*
 * Memory of the program that goes: in the right order, beside registered memory, or while it is registered. A mode
 * that begins with "wrong" does the last; with the argument "flight" a copy is pending then.
 */
#define _GNU_SOURCE
#include "check/program.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SIZE = 1 << 16, PAGE = 4096, THREADS = 3 };

static aclrtStream stream;
static void *device;
static int flight; /* a copy is to be pending when memory goes */

static void want(int true_now, const char *what)
{
	if (true_now)
		return;
	fprintf(stderr, "not so: %s\n", what);
	exit(1);
}

/* The first whole page of a block. */
static char *page_in(void *block)
{
	return (char *)(((uintptr_t)block + PAGE - 1) & ~(uintptr_t)(PAGE - 1));
}

static char *pages(size_t size)
{
	char *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	want(at != MAP_FAILED, "mmap");
	return at;
}

/* Registers a range and copies it to the device and, but for a copy that is to be pending, waits for that. */
static void use(char *host, size_t size)
{
	void *mapped;
	ACL(aclrtHostRegister(host, size, ACL_HOST_REGISTER_MAPPED, &mapped));
	ACL(aclrtMemcpyAsync(device, size, host, size, ACL_MEMCPY_HOST_TO_DEVICE, stream));
	if (!flight)
		ACL(aclrtSynchronizeStream(stream));
}

static void used(char *host)
{
	ACL(aclrtSynchronizeStream(stream));
	ACL(aclrtHostUnregister(host));
}

/* Unregistered first, everything may go in every way. */
static void order(void)
{
	char *volatile kept;
	for (int way = 0; way < 6; way++) {
		char *block = way == 0 ? calloc(2, SIZE) : way == 1 ? aligned_alloc(PAGE, 2 * SIZE) : NULL;
		if (!block)
			block = way < 4 ? malloc(2 * SIZE) : pages(2 * SIZE);
		kept = block;
		memset(block, way, 2 * SIZE);
		use(page_in(block), way == 5 ? 2 * SIZE : SIZE);
		used(page_in(kept));
		if (way == 2)
			block = realloc(block, 64 * SIZE);
		if (way == 3)
			block = reallocarray(block, 3, PAGE);
		want(block[0] == way, "the block has what was in it");
		if (way < 4)
			free(block);
		else if (way == 4)
			want(munmap(block, 2 * SIZE) == 0, "munmap");
		else
			want(mremap(block, 2 * SIZE, 64 * SIZE, MREMAP_MAYMOVE) != MAP_FAILED, "mremap");
	}
}

/* Whole pages are registered, and other blocks are on them: these may go even while a copy is pending. */
static void neighbours(void)
{
	enum { BLOCKS = 64, SMALL = 192 };
	char *block[BLOCKS];
	flight = 1;
	for (int i = 0; i < BLOCKS; i++)
		memset(block[i] = aligned_alloc(64, SMALL), i, SMALL);
	char *mine = block[BLOCKS / 2], *page = (char *)((uintptr_t)mine & ~(uintptr_t)(PAGE - 1));
	void *mapped;
	ACL(aclrtHostRegister(page, PAGE, ACL_HOST_REGISTER_MAPPED, &mapped));
	ACL(aclrtMemcpyAsync(device, SMALL, mine, SMALL, ACL_MEMCPY_HOST_TO_DEVICE, stream));
	/* A block that begins where the registered memory does counts as that. */
	for (int i = 0; i < BLOCKS; i++)
		if (i % 3 == 0 && block[i] != mine && block[i] != page)
			block[i] = realloc(block[i], 2 * SMALL);
	for (int i = 0; i < BLOCKS; i++)
		if (block[i] != mine && block[i] != page)
			free(block[i]);
	used(page);
	for (int i = 0; i < BLOCKS; i++)
		if (block[i] == mine || block[i] == page)
			free(block[i]);
}

/* Pages before registered ones and after them may go. */
static void parts(void)
{
	char *all = pages(4 * SIZE), *host = all + SIZE;
	flight = 1;
	use(host, SIZE);
	want(munmap(all, SIZE) == 0, "munmap in front");
	want(mremap(host + SIZE, 2 * SIZE, SIZE, 0) == host + SIZE, "mremap shrinks");
	want(mmap(host + SIZE, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == host + SIZE, "mmap after");
	void *grown = mremap(host, SIZE, 2 * SIZE, 0); /* there is no room, and it must not move */
	want(grown == MAP_FAILED, "mremap stays where it is");
	want(munmap(host + 1, PAGE) != 0, "munmap of no page");
	used(host);
	want(munmap(host, 2 * SIZE) == 0, "munmap");
}

/* A child has memory of its own. */
static void forked(void)
{
	char *block = malloc(2 * SIZE), *mapping = pages(SIZE);
	flight = 1;
	use(page_in(block), SIZE);
	pid_t child = fork();
	if (child == 0) {
		free(block);
		_exit(munmap(mapping, SIZE) == 0 ? 0 : 1);
	}
	int status = 1;
	want(waitpid(child, &status, 0) == child && status == 0, "the child ends well");
	used(page_in(block));
	free(block);
	munmap(mapping, SIZE);
}

static atomic_int stop;

static void *busy(void *number)
{
	unsigned size = 1 + (unsigned)(uintptr_t)number;
	while (!atomic_load(&stop)) {
		size = size * 1103515245 + 12345;
		char *block = malloc(size % (3 * SIZE));
		char *mapping = pages(PAGE);
		block = realloc(block, size % SIZE + 1);
		block[0] = mapping[0];
		free(block);
		munmap(mapping, PAGE);
	}
	return NULL;
}

/* Others use the allocator while memory is registered and goes. */
static void threads(void)
{
	pthread_t thread[THREADS];
	for (uintptr_t i = 0; i < THREADS; i++)
		want(pthread_create(&thread[i], NULL, busy, (void *)i) == 0, "pthread_create");
	for (int i = 0; i < 100; i++) {
		char *volatile block = malloc(2 * SIZE);
		use(page_in(block), SIZE);
		used(page_in(block));
		free(block);
	}
	atomic_store(&stop, 1);
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
}

/* Each of these takes memory away that is registered, and goes on. */
static void wrong_free(void)
{
	char *volatile block = malloc(2 * SIZE);
	use(page_in(block), SIZE);
	free(block);
	used(page_in(block));
}

static void wrong_small(void)
{
	char *volatile block = aligned_alloc(64, 128);
	use(block, 128);
	free(block);
	used(block);
}

static void wrong_realloc(void)
{
	char *volatile block = malloc(2 * SIZE);
	memset(block, 5, 2 * SIZE);
	use(page_in(block), SIZE);
	char *moved = realloc(block, 64 * SIZE);
	want(moved[0] == 5 && moved[2 * SIZE - 1] == 5, "the block has what was in it");
	used(page_in(block));
	free(moved);
}

static void wrong_reallocarray(void)
{
	char *volatile block = malloc(64 * SIZE);
	use(page_in(block), SIZE);
	free(reallocarray(block, 2, PAGE));
	used(page_in(block));
}

static void wrong_munmap(void)
{
	char *host = pages(SIZE);
	use(host, SIZE);
	want(munmap(host + SIZE - PAGE, PAGE) == 0, "munmap");
	used(host);
	munmap(host, SIZE - PAGE);
}

static void wrong_mremap(void)
{
	char *host = pages(SIZE), *to = pages(2 * SIZE);
	memset(host, 5, SIZE);
	use(host, SIZE);
	want(mremap(host, SIZE, 2 * SIZE, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to, "mremap");
	want(to[0] == 5 && to[SIZE - 1] == 5, "the memory has moved");
	used(host);
	munmap(to, 2 * SIZE);
}

static void wrong_shrink(void)
{
	char *host = pages(SIZE);
	use(host, SIZE);
	want(mremap(host, SIZE, PAGE, 0) == host, "mremap");
	used(host);
	munmap(host, PAGE);
}

static void wrong_mmap(void)
{
	char *host = pages(SIZE);
	memset(host, 5, SIZE);
	use(host, SIZE);
	want(mmap(host, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == host, "mmap");
	want(host[0] == 0 && host[PAGE] == 5, "one page is new");
	used(host);
	munmap(host, SIZE);
}

static void wrong_target(void)
{
	char *host = pages(SIZE), *from = pages(PAGE);
	use(host, SIZE);
	want(mremap(from, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, host) == host, "mremap");
	used(host);
	munmap(host, SIZE);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*function)(void);
	} modes[] = {
		{"order", order}, {"neighbours", neighbours}, {"parts", parts}, {"forked", forked}, {"threads", threads},
		{"wrong_free", wrong_free}, {"wrong_small", wrong_small}, {"wrong_realloc", wrong_realloc},
		{"wrong_reallocarray", wrong_reallocarray}, {"wrong_munmap", wrong_munmap}, {"wrong_mremap", wrong_mremap},
		{"wrong_shrink", wrong_shrink}, {"wrong_mmap", wrong_mmap}, {"wrong_target", wrong_target},
	};
	int found = 0;
	flight = argc > 2 && !strcmp(argv[2], "flight");
	stream = start();
	ACL(aclrtMalloc(&device, 2 * SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
	for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
		if (argc > 1 && !strcmp(argv[1], modes[i].name)) {
			modes[i].function();
			found = 1;
		}
	want(found, "there is such a mode");
	for (int i = 1; i < 100; i++) { /* the allocator works as before */
		char *block = malloc((size_t)i * 1000);
		memset(block, i, (size_t)i * 1000);
		free(block);
	}
	ACL(aclrtFree(device));
	finish(stream);
	return 0;
}
