/* Rules of the fills: aclrtMemset, aclrtMemsetAsync, aclrtMemsetD32 and aclrtMemsetD32Async. */
#include "proof.h"

void rules_fill(const char *machine);

enum { VALUE = 0x12345678 };

/* The arguments of the next call; count is in words for the D32 calls, room in bytes. */
static struct {
	void *p;
	size_t room, count;
	aclrtStream stream;
} a;

/* 64 bytes of device memory, or 64 words: there is room for both. */
static void good(void)
{
	fill(scene.dev[0], OLD);
	fill(scene.pin[0], OLD);
	fill(scene.page[0], OLD);
	a.p = scene.dev[0];
	a.room = 256;
	a.count = 64;
	a.stream = scene.stream;
}

static int bytes(void) { return aclrtMemset(a.p, a.room, VALUE, a.count); }
static int bytes_async(void) { return aclrtMemsetAsync(a.p, a.room, VALUE, a.count, a.stream); }
static int words(void) { return aclrtMemsetD32(a.p, a.room, VALUE, a.count); }
static int words_async(void) { return aclrtMemsetD32Async(a.p, a.room, VALUE, a.count, a.stream); }

static bool is_old(const void *p) { return holds(p, ROOM, OLD); }

/* Whether the first n bytes repeat VALUE, as bytes or as words, and the rest is as it was. */
static bool filled(const void *p, size_t n, size_t width)
{
	unsigned char got[ROOM];
	OK(aclrtMemcpy(got, ROOM, p, n, ACL_MEMCPY_DEFAULT));
	for (size_t i = 0; i < n; i++)
		if (got[i] != (unsigned char)(VALUE >> (8 * (i % width))))
			return false;
	return holds_from(p, n, 64, OLD, n);
}

static void spoil_bytes(int rule)
{
	switch (rule) {
	case 1: a.count = 0; break;
	case 2: a.p = NULL; break;
	case 3: proof.stranger = true; break;
	case 6: a.room = a.count - 1; break;
	}
}

static void spoil_bytes_async(int rule)
{
	switch (rule) {
	case 1: a.count = 0; break;
	case 2: a.p = NULL; break;
	case 3: a.stream = GARBAGE; break;
	case 4: a.room = a.count - 1; break;
	case 5: proof.stranger = true; break;
	case 6: a.stream = scene.foreign; break;
	case 7: a.p = freed_device(); break;
	}
}

static void spoil_words(int rule)
{
	switch (rule) {
	case 1: a.count = 0; break;
	case 2: a.p = NULL; break;
	case 3: a.p = (char *)a.p + 2; break;
	case 4: a.room = 4 * a.count - 1; break;
	case 5: a.p = freed_device(); break;
	case 6: a.p = scene.page[0]; break;
	case 7: proof.stranger = true; break;
	}
}

static void spoil_words_async(int rule)
{
	switch (rule) {
	case 7: a.stream = GARBAGE; break;
	case 8: proof.stranger = true; break;
	case 9: a.stream = scene.foreign; break;
	default: spoil_words(rule);
	}
}

static const struct family set = {"aclrtMemset", 6, good, spoil_bytes, bytes};
static const struct family setAsync = {"aclrtMemsetAsync", 7, good, spoil_bytes_async, bytes_async};
static const struct family set32 = {"aclrtMemsetD32", 7, good, spoil_words, words};
static const struct family set32Async = {"aclrtMemsetD32Async", 9, good, spoil_words_async, words_async};

/* It fills what it should, when nothing is broken. */
static void works(const struct family *f, size_t width)
{
	good();
	OK(f->call());
	OK(aclrtSynchronizeStream(a.stream));
	CHECK(filled(scene.dev[0], 64 * width, width));
	a.p = scene.pin[0];
	OK(f->call());
	CHECK(filled(scene.pin[0], 64 * width, width));
}

/* Memory that is gone, too short, on a device that cannot be reached, or not there. */
static void bad_memory(const struct family *f, bool pageable)
{
	for (int i = 0; i < (pageable ? 5 : 4); i++) {
		good();
		switch (i) {
		case 0: a.p = freed_device(); break;
		case 1: a.p = freed_pinned(); break;
		case 2: a.room = 1 << 22, a.count = 1 << 20; break;
		case 3: a.p = scene.far; break;
		case 4: a.p = scene.hole, a.room = a.count = ROOM; break;
		}
		expect(f);
		OK(aclrtSynchronizeStream(scene.stream));
		CHECK(is_old(scene.dev[0]) && hole_is_whole());
	}
}

static void while_aborting(const struct family *f)
{
	struct abort abort;
	good();
	abort_begin(&abort);
	expect(f);
	abort_end(&abort);
	CHECK(is_old(scene.dev[0]));
}

static void by_bytes(void)
{
	works(&set, 1);
	for (int rule = 1; rule <= 3; rule++)
		prove(&set, rule);
	RULE("aclrtMemset", 4)
		while_aborting(&set);
	RULE("aclrtMemset", 6) {
		breaks(&set, 6);
		bad_memory(&set, true);
	}
	works(&setAsync, 1);
	for (int rule = 1; rule <= 5; rule++)
		prove(&setAsync, rule);
	RULE("aclrtMemsetAsync", 6) {
		breaks(&setAsync, 6);
		good();
		a.p = scene.page[0]; /* the stream counts although nothing is put on it */
		a.stream = scene.foreign;
		expect(&setAsync);
		CHECK(is_old(scene.page[0]));
	}
	RULE("aclrtMemsetAsync", 7) {
		passed_on(ACL_ERROR_RT_PARAM_INVALID);
		breaks(&setAsync, 7);
		bad_memory(&setAsync, true);
	}
}

/* The rules that both word fills begin with. */
static void first_words(const struct family *f)
{
	for (int rule = 1; rule <= 6; rule++)
		RULE(f->function, rule) {
			if (rule == 5)
				passed_on(ACL_ERROR_RT_PARAM_INVALID);
			breaks(f, rule);
			if (rule == 4) {
				good();
				a.count = ((size_t)1 << 62) + 1; /* times 4 is 4 */
				expect(f);
				a.count = SIZE_MAX;
				expect(f);
			} else if (rule == 5)
				bad_memory(f, false);
			CHECK(is_old(scene.dev[0]) && is_old(scene.page[0]));
		}
}

static void by_words(void)
{
	works(&set32, 4);
	first_words(&set32);
	prove(&set32, 7);
	RULE("aclrtMemsetD32", 8)
		while_aborting(&set32);
	works(&set32Async, 4);
	first_words(&set32Async);
	prove(&set32Async, 7);
	prove(&set32Async, 8);
	RULE("aclrtMemsetD32Async", 9) {
		breaks(&set32Async, 9);
		CHECK(is_old(scene.dev[0]));
		good();
		a.p = scene.pin[0]; /* host memory is filled, whosever the stream is */
		a.stream = scene.foreign;
		OK(words_async());
		CHECK(filled(scene.pin[0], 256, 4));
	}
}

void rules_fill(const char *machine)
{
	if (strcmp(machine, "310P") == 0) /* no word fills there, which is said after the checks of the arguments */
		for (int i = 0; i < 2; i++) {
			const struct family *f = i == 0 ? &set32 : &set32Async;
			good();
			IS(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, f->call());
			CHECK(is_old(scene.dev[0]));
			a.room = 255;
			IS(ACL_ERROR_INVALID_PARAM, f->call());
		}
	if (strcmp(machine, "strict") == 0) {
		RULE("aclrtMemset", 7) {
			good();
			a.p = scene.page[0];
			expect(&set);
			CHECK(is_old(scene.page[0]));
		}
		RULE("aclrtMemsetAsync", 8) {
			good();
			a.p = scene.page[0];
			expect(&setAsync);
			CHECK(is_old(scene.page[0]));
		}
	}
	if (strcmp(machine, "A2") != 0)
		return;
	by_bytes();
	by_words();
}
