/*
 * Measures copies through libascendcl.so, as a C program makes them. It reads requests and replies to each with times; ../table.py asks
 * it and ../bench.cu in turn:
 *
 *	WHAT WAY SEGMENTS BYTES ODD ROUNDS
 *
 * WHAT is loop (one call for each segment), batch (one for all), submit (the time of one call, nobody waits for the copies), ordinary
 * (one copy of ordinary memory, used before), fresh (never used before), graph (captures the loop once and times an execution to its
 * end) or compile (times the end of such a capture). WAY is h2d, d2h or d2d, which has no batch. With ODD 1 the segments have any
 * alignment and up to 15 bytes less. The reply is a time in microseconds for each round, from the first call to the end of the copies,
 * or "error" and why. Every round is verified: the destination is overwritten before it, and compared after it, with 16 bytes on either
 * side of each segment.
 *
 *	bench [MiB of memory on either side]
 */
#define _GNU_SOURCE
#include <acl/acl.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { MOST = 4096, GAP = 128, AROUND = 16, BLANK = 0xa5, CALLS = 256, ROUSE = 24 };
#define FLUSH ((size_t)256 << 20)

enum way { H2D, D2H, D2D };
static const aclrtMemcpyKind kinds[] = {ACL_MEMCPY_HOST_TO_DEVICE, ACL_MEMCPY_DEVICE_TO_HOST, ACL_MEMCPY_DEVICE_TO_DEVICE};

static aclrtStream stream;
static size_t room;
static uint8_t *host_from, *host_to, *device_from, *device_to, *scrap;
static char trouble[512]; /* why the request cannot be carried out; empty if it can */

static int fails(aclError code, const char *what)
{
	if (code == ACL_SUCCESS)
		return 0;
	const char *text = aclGetRecentErrMsg();
	if (!trouble[0])
		snprintf(trouble, sizeof trouble, "%s: %d %s", what, code, text ? text : "");
	for (char *c = trouble; *c; c++)
		if (*c == '\n')
			*c = ' ';
	return 1;
}
#define FAILS(call) fails(call, #call)

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}

static uint64_t random_number(void)
{
	static uint64_t seed = 88172645463325252ULL;
	seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
	return seed;
}

static void shuffle(size_t *list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		list[i] = i;
	for (size_t i = n; i > 1; i--) {
		size_t k = random_number() % i, t = list[k];
		list[k] = list[i - 1], list[i - 1] = t;
	}
}

static struct {
	void *dst[MOST], *src[MOST];
	size_t size[MOST], n, used;
	uint8_t *to, *from; /* where destinations and sources begin */
} list;

static void ends(enum way way)
{
	list.to = way == D2H ? host_to : device_to;
	list.from = way == H2D ? host_from : device_from;
}

/* Lays segments out at random. */
static int lay(enum way way, size_t n, size_t bytes, int odd)
{
	static size_t to[MOST], from[MOST];
	size_t slot = (bytes + 127) / 128 * 128 + GAP;
	if (n > MOST || n * slot + 2 * GAP > room) {
		snprintf(trouble, sizeof trouble, "no room for %zu segments of %zu bytes", n, bytes);
		return 1;
	}
	ends(way);
	shuffle(to, n), shuffle(from, n);
	list.n = n, list.used = 0;
	for (size_t i = 0; i < n; i++) {
		size_t a = GAP + to[i] * slot + (odd ? random_number() % 16 : 0);
		list.dst[i] = list.to + a;
		list.src[i] = list.from + GAP + from[i] * slot + (odd ? random_number() % 16 : 0);
		list.size[i] = bytes - (odd ? random_number() % 16 : 0);
		if (a + list.size[i] + AROUND > list.used)
			list.used = a + list.size[i] + AROUND;
	}
	return 0;
}

/* Overwrites memory that nobody needs. After a comparison, which takes the host a while, it brings the GPU back to its full speed. */
static int write_scrap(int times)
{
	for (int i = 0; i < times; i++)
		if (FAILS(aclrtMemsetAsync(scrap, FLUSH < room ? FLUSH : room, 0, FLUSH < room ? FLUSH : room, stream)))
			return 1;
	return FAILS(aclrtSynchronizeStream(stream));
}

/*
 * Overwrites the destination, and what the GPU has in its cache. The device writes host memory, the source once more too: what the
 * host's cores have in their caches, it would have to fetch from there.
 */
static int poison(enum way way)
{
	if (FAILS(aclrtMemsetAsync(device_to, room, BLANK, list.used, stream)))
		return 1;
	uint8_t *to = way == D2H ? host_to : host_from, *from = way == D2H ? device_to : device_from;
	if (way != D2D && FAILS(aclrtMemcpyAsync(to, room, from, list.used, ACL_MEMCPY_DEVICE_TO_HOST, stream)))
		return 1;
	return write_scrap(1);
}

static int compare(enum way way)
{
	uint8_t blank[AROUND];
	memset(blank, BLANK, sizeof blank);
	if (way != D2H && FAILS(aclrtMemcpy(host_to, room, device_to, list.used, ACL_MEMCPY_DEVICE_TO_HOST)))
		return 1;
	size_t wrong = 0;
	for (size_t i = 0; i < list.n; i++) {
		uint8_t *is = host_to + ((uint8_t *)list.dst[i] - list.to), *want = host_from + ((uint8_t *)list.src[i] - list.from);
		wrong += memcmp(is, want, list.size[i]) || memcmp(is - AROUND, blank, AROUND) || memcmp(is + list.size[i], blank, AROUND);
	}
	if (wrong)
		snprintf(trouble, sizeof trouble, "WRONG: %zu of %zu segments", wrong, list.n);
	return wrong != 0;
}

static int by_loop(enum way way)
{
	for (size_t i = 0; i < list.n; i++)
		if (FAILS(aclrtMemcpyAsync(list.dst[i], list.size[i], list.src[i], list.size[i], kinds[way], stream)))
			return 1;
	return FAILS(aclrtSynchronizeStream(stream));
}

static int by_batch(enum way way)
{
	aclrtMemcpyBatchAttr attr;
	memset(&attr, 0, sizeof attr);
	attr.dstLoc.type = way == D2H ? ACL_MEM_LOCATION_TYPE_HOST : ACL_MEM_LOCATION_TYPE_DEVICE;
	attr.srcLoc.type = way == H2D ? ACL_MEM_LOCATION_TYPE_HOST : ACL_MEM_LOCATION_TYPE_DEVICE;
	size_t first = 0, failed = 0;
	if (FAILS(aclrtMemcpyBatchAsync(list.dst, list.size, list.src, list.size, list.n, &attr, &first, 1, &failed, stream)))
		return 1;
	return FAILS(aclrtSynchronizeStream(stream));
}

static aclmdlRI model; /* of the list, or NULL */

static void drop_model(void)
{
	if (model)
		FAILS(aclmdlRIDestroy(model));
	model = NULL;
}

/* Captures the loop; took is how long the end of that takes, which compiles it. */
static int capture(enum way way, double *took)
{
	drop_model();
	if (FAILS(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL)))
		return 1;
	for (size_t i = 0; i < list.n; i++)
		if (FAILS(aclrtMemcpyAsync(list.dst[i], list.size[i], list.src[i], list.size[i], kinds[way], stream)))
			break;
	double start = now();
	int failed = FAILS(aclmdlRICaptureEnd(stream, &model));
	*took = now() - start;
	return failed || trouble[0];
}

static int by_graph(enum way way, double *took)
{
	if (!model && capture(way, took))
		return 1;
	double start = now();
	int failed = FAILS(aclmdlRIExecuteAsync(model, stream)) || FAILS(aclrtSynchronizeStream(stream));
	*took = now() - start;
	return failed;
}

/* One copy of ordinary memory in place of the host's end. */
static int by_ordinary(enum way way, int fresh, double *took)
{
	size_t n = list.size[0];
	uint8_t *mine = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (mine == MAP_FAILED || way == D2D) {
		snprintf(trouble, sizeof trouble, "no ordinary memory");
		return 1;
	}
	void *dst = list.dst[0], *src = list.src[0];
	if (way == H2D) {
		memcpy(mine, src, n);
		src = mine;
	} else {
		if (!fresh)
			memset(mine, 0, n);
		dst = mine;
	}
	double start = now();
	int failed = FAILS(aclrtMemcpy(dst, n, src, n, kinds[way]));
	*took = now() - start;
	if (way == D2H)
		memcpy(list.dst[0], mine, n);
	munmap(mine, n);
	return failed;
}

/* One run; its time, or less than nothing. */
static double run(const char *what, enum way way)
{
	double start = now(), took = 0;
	int failed = 0;
	if (!strcmp(what, "loop")) {
		failed = by_loop(way);
		took = now() - start;
	} else if (!strcmp(what, "batch")) {
		failed = by_batch(way);
		took = now() - start;
	} else if (!strcmp(what, "graph")) {
		failed = by_graph(way, &took);
	} else if (!strcmp(what, "compile")) {
		double ran;
		failed = capture(way, &took) || by_graph(way, &ran);
	} else if (!strcmp(what, "ordinary") || !strcmp(what, "fresh")) {
		failed = by_ordinary(way, !strcmp(what, "fresh"), &took);
	} else {
		snprintf(trouble, sizeof trouble, "no such request: %s", what);
		return -1;
	}
	return failed ? -1 : took;
}

/* One verified run. There is another before it: comparing has put other things into the host's caches. */
static double round_of(const char *what, enum way way)
{
	if (write_scrap(ROUSE) || run(what, way) < 0 || poison(way))
		return -1;
	double took = run(what, way);
	return took < 0 || compare(way) ? -1 : took;
}

/* How long a call takes, on average of many. */
static double submit(enum way way, size_t bytes)
{
	ends(way);
	if (write_scrap(ROUSE))
		return -1;
	double start = now();
	for (int i = 0; i < CALLS; i++)
		if (FAILS(aclrtMemcpyAsync(list.to, bytes, list.from, bytes, kinds[way], stream)))
			return -1;
	double took = (now() - start) / CALLS;
	return FAILS(aclrtSynchronizeStream(stream)) ? -1 : took;
}

static void serve(const char *what, enum way way, size_t segments, size_t bytes, int odd, int rounds)
{
	enum { MOST_ROUNDS = 1000 };
	static double times[MOST_ROUNDS];
	trouble[0] = 0;
	int calls = !strcmp(what, "submit");
	if (rounds > MOST_ROUNDS)
		rounds = MOST_ROUNDS;
	if (!calls)
		lay(way, segments, bytes, odd);
	for (int r = -1; r < rounds && !trouble[0]; r++) {
		double took = calls ? submit(way, bytes) : round_of(what, way);
		if (r >= 0)
			times[r] = took;
	}
	drop_model();
	if (trouble[0]) {
		printf("error %s\n", trouble);
		return;
	}
	for (int r = 0; r < rounds; r++)
		printf("%s%.3f", r ? " " : "", times[r]);
	printf("\n");
}

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	room = (size_t)(argc > 1 ? atoi(argv[1]) : 1100) << 20;
	int failed = FAILS(aclInit(NULL)) || FAILS(aclrtSetDevice(0)) || FAILS(aclrtCreateStream(&stream)) ||
		FAILS(aclrtMallocHost((void **)&host_from, room)) || FAILS(aclrtMallocHost((void **)&host_to, room)) ||
		FAILS(aclrtMalloc((void **)&device_from, room, ACL_MEM_MALLOC_HUGE_FIRST)) ||
		FAILS(aclrtMalloc((void **)&device_to, room, ACL_MEM_MALLOC_HUGE_FIRST)) ||
		FAILS(aclrtMalloc((void **)&scrap, FLUSH < room ? FLUSH : room, ACL_MEM_MALLOC_HUGE_FIRST));
	for (size_t i = 0; !failed && i + 8 <= room; i += 8) {
		uint64_t r = random_number();
		memcpy(host_from + i, &r, 8);
	}
	if (failed || FAILS(aclrtMemcpy(device_from, room, host_from, room, ACL_MEMCPY_HOST_TO_DEVICE))) {
		fprintf(stderr, "bench: %s\n", trouble);
		return 1;
	}
	printf("ready\n");
	char what[16], name[8];
	size_t segments, bytes;
	int odd, rounds;
	while (scanf("%15s %7s %zu %zu %d %d", what, name, &segments, &bytes, &odd, &rounds) == 6)
		serve(what, !strcmp(name, "h2d") ? H2D : !strcmp(name, "d2h") ? D2H : D2D, segments, bytes, odd, rounds);
	aclFinalize();
	return 0;
}
