/* Rules of aclrtMemcpyAsync and aclrtMemcpyAsyncWithCondition, which share most of them. */
#include "proof.h"

void rules_async(const char *machine);

/* The arguments of the next call. */
static struct {
	void *dst;
	size_t destMax;
	const void *src;
	size_t count;
	aclrtMemcpyKind kind;
	aclrtStream stream;
} a;

/* A copy of 64 pinned bytes to the device. */
static void good(void)
{
	fill(scene.dev[0], OLD);
	fill(scene.pin[0], NEW);
	fill(scene.page[0], NEW);
	a.dst = scene.dev[0];
	a.destMax = a.count = 64;
	a.src = scene.pin[0];
	a.kind = ACL_MEMCPY_HOST_TO_DEVICE;
	a.stream = scene.stream;
}

static int plain(void) { return aclrtMemcpyAsync(a.dst, a.destMax, a.src, a.count, a.kind, a.stream); }
static int condition(void) { return aclrtMemcpyAsyncWithCondition(a.dst, a.destMax, a.src, a.count, a.kind, a.stream); }

static void spoil(int rule)
{
	switch (rule) {
	case 1: a.count = 0; break;
	case 2: a.dst = NULL; break;
	case 3: a.src = NULL; break;
	case 4: a.kind = ACL_MEMCPY_INNER_DEVICE_TO_DEVICE; break;
	case 5: a.stream = GARBAGE; break;
	case 6: a.destMax = a.count - 1; break;
	case 8: proof.stranger = true; break;
	case 9: a.kind = ACL_MEMCPY_HOST_TO_HOST; break;
	case 11: a.kind = ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE, a.src = freed_device(), a.dst = scene.pin[1]; break;
	case 12: a.kind = ACL_MEMCPY_DEFAULT, a.src = freed_pinned(); break;
	case 13: a.kind = ACL_MEMCPY_DEVICE_TO_HOST, a.src = scene.page[0]; break;
	case 15: a.src = a.dst; break;
	case 23: a.stream = scene.foreign; break;
	}
}

static const struct family f = {"aclrtMemcpyAsync", 23, good, spoil, plain};
static const struct family g = {"aclrtMemcpyAsyncWithCondition", 23, good, spoil, condition};

static bool arrived(void) { return holds(scene.dev[0], 64, NEW); }
static bool is_old(void) { return holds(scene.dev[0], ROOM, OLD); }

/* Refused at the call, with nothing written. */
static void refused(const struct family *f, void *dst, const void *src, size_t count, aclrtMemcpyKind kind)
{
	good();
	a.dst = dst;
	a.destMax = a.count = count;
	a.src = src;
	a.kind = kind;
	expect(f);
	OK(aclrtSynchronizeStream(scene.stream));
	CHECK(is_old());
}

/* Pageable memory: the call waits, reports what failed before, and copies. */
static void pageable(const struct family *f, int rule)
{
	struct abort abort;
	good();
	a.src = scene.page[0];
	switch (rule) {
	case 18:
		if (!proof.known)
			passed_on(507013);
		fail_on(a.stream);
		expect(f);
		CHECK(is_old());
		OK(f->call()); /* the failure was reported */
		CHECK(arrived());
		break;
	case 19:
		abort_begin(&abort);
		expect(f);
		abort_end(&abort);
		CHECK(is_old());
		break;
	case 21:
		refused(f, scene.dev[0], scene.hole, ROOM, ACL_MEMCPY_HOST_TO_DEVICE);
		refused(f, scene.hole, scene.dev[0], ROOM, ACL_MEMCPY_DEVICE_TO_HOST);
		CHECK(hole_is_whole());
		break;
	case 22:
		a.stream = scene.foreign; /* not compared */
		expect(f);
		CHECK(arrived()); /* before anything was synchronised */
		break;
	}
}

/* A copy that fails while it runs is reported by the next synchronisation, once. */
static void late(const struct family *f)
{
	struct gate gate;
	void *gone;
	good();
	OK(aclrtMalloc(&gone, ROOM, ACL_MEM_MALLOC_HUGE_FIRST));
	block(&gate, a.stream);
	a.src = gone;
	OK(f->call());
	OK(aclrtFree(gone)); /* too early */
	gate_open(&gate);
	proof_forget();
	int code = aclrtSynchronizeStream(a.stream), last = aclrtGetLastError(ACL_RT_THREAD_LEVEL);
	gate_drop(&gate);
	CHECK(code == proof.code && last == proof.code);
	proof.seen++;
	OK(aclrtSynchronizeStream(a.stream));
	CHECK(is_old());

	fail_on(a.stream);
	a.src = scene.page[0];
	expect(f); /* which has to synchronise, and so reports it */
}

/* The rules from the context on, which both calls share. */
static void shared(const struct family *f, int rule)
{
	switch (rule) {
	case 8:
	case 15:
		breaks(f, rule);
		break;
	case 9: /* whatever the addresses are */
		breaks(f, 9);
		refused(f, scene.dev[0], scene.page[0], 64, ACL_MEMCPY_HOST_TO_HOST);
		refused(f, scene.page[1], scene.page[0], 64, ACL_MEMCPY_HOST_TO_HOST);
		refused(f, scene.dev[0], scene.dev[1], 64, ACL_MEMCPY_HOST_TO_HOST);
		break;
	case 11:
		breaks(f, 11);
		refused(f, scene.dev[0], scene.dev[1], 64, ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE);
		refused(f, scene.pin[1], scene.pin[0], 64, ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE);
		refused(f, scene.page[1], scene.page[0], 64, ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE);
		break;
	case 12:
		breaks(f, 12);
		refused(f, scene.dev[0], freed_device(), 64, ACL_MEMCPY_DEFAULT);
		refused(f, freed_device(), scene.pin[0], 64, ACL_MEMCPY_DEFAULT);
		refused(f, scene.dev[0], scene.pin[0], 1 << 20, ACL_MEMCPY_DEFAULT);
		refused(f, scene.dev[0], scene.far, 64, ACL_MEMCPY_DEFAULT);
		break;
	case 13:
		refused(f, scene.dev[0], scene.page[0], 64, ACL_MEMCPY_DEVICE_TO_HOST);
		refused(f, scene.page[1], scene.dev[0], 64, ACL_MEMCPY_HOST_TO_DEVICE);
		break;
	case 14:
		refused(f, scene.pin[1], scene.pin[0], 64, ACL_MEMCPY_HOST_TO_DEVICE);
		refused(f, scene.pin[0], scene.pin[0], 64, ACL_MEMCPY_DEFAULT); /* not even this is a success */
		refused(f, scene.page[1], scene.page[0], 64, ACL_MEMCPY_DEFAULT);
		break;
	case 23:
		breaks(f, 23);
		good();
		a.kind = ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE;
		a.src = scene.page[0]; /* its second half is queued */
		a.stream = scene.foreign;
		expect(f);
		break;
	case 24:
		late(f);
		break;
	default:
		pageable(f, rule);
	}
}

static const int sharedRules[] = {8, 9, 11, 12, 13, 14, 15, 18, 19, 21, 22, 23, 24};

/* A buffered copy on a stream of a model that is built by hand. */
static void on_bound_stream(const struct family *f)
{
	aclrtStream bound;
	aclmdlRI model;
	OK(aclrtCreateStreamWithConfig(&bound, 0, ACL_STREAM_PERSISTENT));
	OK(aclmdlRIBuildBegin(&model, 0));
	OK(aclmdlRIBindStream(model, bound, 0));
	good();
	a.kind = ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE;
	a.stream = bound;
	expect(f);
	OK(aclmdlRIUnbindStream(model, bound));
	OK(aclmdlRIDestroy(model));
	OK(aclrtDestroyStream(bound));
	CHECK(is_old());
}

/* The first rules, which each call has for itself. */
static void own(const struct family *f)
{
	for (int rule = 1; rule <= 6; rule++)
		RULE(f->function, rule) {
			breaks(f, rule);
			if (rule == 4) {
				good();
				a.kind = (aclrtMemcpyKind)-1;
				expect(f);
			} else if (rule == 5) {
				good();
				a.stream = scene.gone;
				expect(f);
				a.stream = scene.home; /* a handle of another kind */
				expect(f);
			} else if (rule == 6) {
				good();
				a.destMax = 0;
				expect(f);
			}
			CHECK(is_old());
		}
	RULE(f->function, 7)
		on_bound_stream(f);
}

/* The 310 refuses addresses that are no multiples of 64. */
static void misaligned_on_310(const struct family *f)
{
	const int by[] = {1, 8, 32, 63};
	for (size_t i = 0; i < sizeof by / sizeof by[0]; i++) {
		refused(f, scene.dev[0], (char *)scene.pin[0] + by[i], 64, ACL_MEMCPY_HOST_TO_DEVICE);
		refused(f, (char *)scene.dev[0] + by[i], scene.pin[0], 64, ACL_MEMCPY_HOST_TO_DEVICE);
	}
}

/* The 310 accepts what it cannot do, and fails it when it runs. */
static void late_on_310(void)
{
	void *ends[][2] = {{scene.pin[0], scene.pin[1]}, {scene.page[0], scene.pin[1]}, {scene.page[0], scene.dev[0]}};
	for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
		good();
		a.src = ends[i][0], a.dst = ends[i][1];
		a.kind = ACL_MEMCPY_DEFAULT;
		OK(plain());
		IS(ACL_ERROR_RT_SYS_DMA, aclrtSynchronizeStream(a.stream));
		CHECK(is_old());
	}
	good();
	a.kind = ACL_MEMCPY_HOST_TO_HOST; /* whatever the addresses are */
	OK(plain());
	IS(ACL_ERROR_RT_SYS_DMA, aclrtSynchronizeStream(a.stream));
	CHECK(is_old());
	RULE("aclrtMemcpyAsync", 10)
		misaligned_on_310(&f);
	RULE("aclrtMemcpyAsyncWithCondition", 10) {
		like("aclrtMemcpyAsync", 10);
		misaligned_on_310(&g);
	}
}

void rules_async(const char *machine)
{
	if (strcmp(machine, "310") == 0)
		late_on_310();
	if (strcmp(machine, "strict") == 0) {
		RULE("aclrtMemcpyAsync", 25)
			refused(&f, scene.dev[0], scene.page[0], 64, ACL_MEMCPY_HOST_TO_DEVICE);
		RULE("aclrtMemcpyAsyncWithCondition", 10) {
			like("aclrtMemcpyAsync", 25);
			refused(&g, scene.dev[0], scene.page[0], 64, ACL_MEMCPY_DEFAULT);
		}
		RULE("aclrtMemcpyAsync", 9) /* refused here too, where it is accepted otherwise */
			refused(&f, scene.dev[0], scene.pin[0], 64, ACL_MEMCPY_HOST_TO_HOST);
	}
	if (strcmp(machine, "A2") != 0)
		return;
	own(&f);
	for (size_t i = 0; i < sizeof sharedRules / sizeof sharedRules[0]; i++)
		RULE("aclrtMemcpyAsync", sharedRules[i])
			shared(&f, sharedRules[i]);
	own(&g);
	RULE("aclrtMemcpyAsyncWithCondition", 8)
		shared(&g, 8);
	RULE("aclrtMemcpyAsyncWithCondition", 10)
		for (size_t i = 1; i < sizeof sharedRules / sizeof sharedRules[0]; i++) {
			like("aclrtMemcpyAsync", sharedRules[i]);
			shared(&g, sharedRules[i]);
		}
}
