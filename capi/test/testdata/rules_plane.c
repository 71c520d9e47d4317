/* Rules of aclrtMemcpy2d and aclrtMemcpy2dAsync. */
#include "proof.h"

void rules_plane(const char *machine);

enum { MOST_ROWS = 5 * 1024 * 1024, WIDEST = 5000000 };

/* The arguments of the next call. */
static struct {
	void *dst;
	size_t dpitch;
	const void *src;
	size_t spitch, width, height;
	aclrtMemcpyKind kind;
	aclrtStream stream;
} a;

/* Four rows of 8 bytes from pinned memory (16 apart) to the device (32 apart). */
static void good(void)
{
	fill(scene.dev[0], OLD);
	fill(scene.pin[0], NEW);
	fill(scene.page[0], NEW);
	a.dst = scene.dev[0], a.dpitch = 32;
	a.src = scene.pin[0], a.spitch = 16;
	a.width = 8, a.height = 4;
	a.kind = ACL_MEMCPY_HOST_TO_DEVICE;
	a.stream = scene.stream;
}

static int now(void) { return aclrtMemcpy2d(a.dst, a.dpitch, a.src, a.spitch, a.width, a.height, a.kind); }
static int queued(void) { return aclrtMemcpy2dAsync(a.dst, a.dpitch, a.src, a.spitch, a.width, a.height, a.kind, a.stream); }

static bool is_old(void) { return holds(scene.dev[0], 256, OLD); }
static bool arrived(void)
{
	for (size_t row = 0; row < 4; row++)
		if (!holds_from(scene.dev[0], 32 * row, 8, NEW, 16 * row) || !holds_from(scene.dev[0], 32 * row + 8, 24, OLD, 32 * row + 8))
			return false;
	return true;
}

/* The rules both calls begin with. */
static void spoil_first(int rule)
{
	switch (rule) {
	case 1: a.width = 0; break;
	case 2: a.dst = NULL; break;
	case 3: a.src = NULL; break;
	case 4: a.spitch = a.width - 1; break;
	case 5: a.kind = ACL_MEMCPY_HOST_TO_HOST; break;
	}
}

static void too_wide(void) { a.width = a.spitch = a.dpitch = WIDEST + 1; }

static void spoil_now(int rule)
{
	spoil_first(rule);
	switch (rule) {
	case 6: a.height = MOST_ROWS + 1; break;
	case 7: too_wide(); break;
	case 8: a.kind = ACL_MEMCPY_DEVICE_TO_DEVICE; break;
	case 9: proof.stranger = true; break;
	case 10: a.src = freed_pinned(); break;
	case 11: a.dst = scene.pin[1], a.src = scene.pin[0]; break;
	case 13: a.src = scene.hole + sysconf(_SC_PAGESIZE); break;
	}
}

static void spoil_queued(int rule)
{
	spoil_first(rule);
	switch (rule) {
	case 6: a.stream = GARBAGE; break;
	case 7: a.stream = NULL, proof.stranger = true; break;
	case 8: a.height = MOST_ROWS + 1; break;
	case 9: too_wide(); break;
	case 10: proof.stranger = true; break;
	case 11: a.src = freed_pinned(); break;
	case 12: a.src = scene.page[0], a.dst = scene.dev[0], a.kind = ACL_MEMCPY_DEVICE_TO_HOST; break;
	case 13: a.src = scene.pin[0], a.dst = scene.pin[1]; break;
	case 19: a.stream = scene.foreign; break;
	}
}

static const struct family f = {"aclrtMemcpy2d", 13, good, spoil_now, now};
static const struct family g = {"aclrtMemcpy2dAsync", 19, good, spoil_queued, queued};

/* More ways to break the first rules. */
static void more(const struct family *f, int rule)
{
	static const int kinds[] = {-1, 0, 5, 6, 7, 8, INT32_MAX};
	good();
	if (rule == 1) {
		a.height = 0;
		a.dst = NULL;
		expect(f);
	} else if (rule == 4) {
		a.dpitch = a.width - 1;
		expect(f);
	} else if (rule == 5) {
		for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
			a.kind = (aclrtMemcpyKind)kinds[i];
			expect(f);
		}
	}
	CHECK(is_old());
}

/* Memory that is gone, too short, or not there. */
static void bad_memory(const struct family *f)
{
	for (int i = 0; i < 6; i++) {
		good();
		switch (i) {
		case 0: a.dst = freed_device(); break;
		case 1: a.height = 1000; break;
		case 2: a.spitch = (size_t)1 << 62; break;
		case 3: a.dpitch = SIZE_MAX; break;
		case 4: a.src = scene.hole, a.spitch = (size_t)sysconf(_SC_PAGESIZE); break;
		case 5:
			a.src = scene.dev[0], a.dst = scene.hole, a.dpitch = (size_t)sysconf(_SC_PAGESIZE);
			a.kind = ACL_MEMCPY_DEVICE_TO_HOST;
			break;
		}
		expect(f);
		OK(aclrtSynchronizeStream(scene.stream));
		CHECK(is_old() && hole_is_whole());
	}
}

static void synchronous(void)
{
	good();
	OK(now());
	CHECK(arrived());
	for (int rule = 1; rule <= 9; rule++)
		RULE("aclrtMemcpy2d", rule) {
			breaks(&f, rule);
			more(&f, rule);
		}
	RULE("aclrtMemcpy2d", 10) {
		passed_on(ACL_ERROR_RT_PARAM_INVALID);
		breaks(&f, 10);
		good();
		a.dst = freed_device();
		expect(&f);
	}
	RULE("aclrtMemcpy2d", 11) {
		unsigned char **ends[][2] = {
			{scene.pin, scene.pin + 1}, {scene.dev, scene.dev + 1}, {scene.pin, scene.page}, {scene.page, scene.pin}, {scene.page, scene.page + 1},
		};
		breaks(&f, 11);
		for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
			good();
			a.src = *ends[i][0], a.dst = *ends[i][1], a.kind = ACL_MEMCPY_DEFAULT;
			expect(&f);
		}
		CHECK(is_old());
	}
	RULE("aclrtMemcpy2d", 13) {
		breaks(&f, 13);
		bad_memory(&f);
	}
}

static void asynchronous(void)
{
	good();
	OK(queued());
	OK(aclrtSynchronizeStream(a.stream));
	CHECK(arrived());
	for (int rule = 1; rule <= 13; rule++)
		RULE("aclrtMemcpy2dAsync", rule) {
			if (rule == 11)
				passed_on(ACL_ERROR_RT_PARAM_INVALID);
			breaks(&g, rule);
			more(&g, rule);
			if (rule == 11)
				bad_memory(&g);
		}
	RULE("aclrtMemcpy2dAsync", 16) {
		passed_on(ACL_ERROR_RT_SYS_DMA);
		good();
		a.src = scene.page[0];
		fail_on(a.stream);
		expect(&g);
		CHECK(is_old());
		OK(queued()); /* the failure was reported */
		CHECK(arrived());
	}
	RULE("aclrtMemcpy2dAsync", 18) {
		good();
		a.src = scene.page[0];
		a.stream = scene.foreign;
		expect(&g);
		CHECK(arrived()); /* before anything was synchronised */
	}
	RULE("aclrtMemcpy2dAsync", 19) {
		breaks(&g, 19);
		good();
		a.src = scene.dev[1], a.kind = ACL_MEMCPY_DEVICE_TO_DEVICE;
		a.stream = scene.foreign;
		expect(&g);
		CHECK(is_old());
	}
}

void rules_plane(const char *machine)
{
	if (strcmp(machine, "310P") == 0)
		RULE("aclrtMemcpy2dAsync", 7) { /* there the default stream is not taken at all */
			good();
			a.stream = NULL;
			expect(&g);
			CHECK(is_old());
		}
	if (strcmp(machine, "RC") == 0) /* there are no 2-D copies, and that is said before the kind and the context are looked at */
		for (int kind = 1; kind <= 4; kind++) {
			good();
			a.kind = (aclrtMemcpyKind)kind;
			IS(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, now());
			IS(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, queued());
			a.height = MOST_ROWS + 1;
			IS(ACL_ERROR_RT_PARAM_INVALID, now());
			IS(ACL_ERROR_RT_PARAM_INVALID, queued());
		}
	if (strcmp(machine, "strict") == 0) {
		RULE("aclrtMemcpy2dAsync", 20) {
			good();
			a.src = scene.page[0];
			expect(&g);
			CHECK(is_old());
		}
		RULE("aclrtMemcpy2dAsync", 21) {
			good();
			a.src = scene.dev[1], a.kind = ACL_MEMCPY_DEVICE_TO_DEVICE;
			expect(&g);
			CHECK(is_old());
		}
	}
	if (strcmp(machine, "A2") != 0)
		return;
	synchronous();
	asynchronous();
}
