/* Rules of the copies whose addresses lie in device memory: by descriptor, and by cells with offsets. */
#include "proof.h"

void rules_descriptor(const char *machine);

/* The arguments of the next call about a descriptor. */
static struct {
	void *desc;
	aclrtMemcpyKind kind;
	void *src, *dst;
	size_t count;
	void *config;
	aclrtStream stream;
} a;

/* A descriptor in dev[0], for 64 bytes from dev[1] to dev[2]; not set yet. */
static void unset(void)
{
	fill(scene.dev[0], 0);
	fill(scene.dev[1], NEW);
	fill(scene.dev[2], OLD);
	a.desc = scene.dev[0];
	a.kind = ACL_MEMCPY_INNER_DEVICE_TO_DEVICE;
	a.src = scene.dev[1], a.dst = scene.dev[2];
	a.count = 64;
	a.config = NULL;
	a.stream = scene.stream;
}

static int set(void) { return aclrtSetMemcpyDesc(a.desc, a.kind, a.src, a.dst, a.count, a.config); }
static int run(void) { return aclrtMemcpyAsyncWithDesc(a.desc, a.kind, a.stream); }

static void is_set(void)
{
	unset();
	OK(set());
}

static bool desc_is_old(void) { return holds(scene.dev[0], ROOM, 0); }
static bool is_old(void) { return holds(scene.dev[2], ROOM, OLD); }

static void spoil_set(int rule)
{
	switch (rule) {
	case 1: a.desc = NULL; break;
	case 2: a.kind = (aclrtMemcpyKind)8; break;
	case 3: a.src = NULL; break;
	case 4: a.dst = NULL; break;
	case 5: a.count = 0; break;
	case 6: a.config = scene.page[0]; break;
	case 8: a.kind = ACL_MEMCPY_DEVICE_TO_DEVICE; break;
	case 9: a.count = (size_t)4 << 30; break;
	case 10: a.desc = (char *)a.desc + 32; break;
	case 11: a.dst = freed_device(); break;
	case 12: a.desc = scene.pin[0]; break;
	case 13: a.src = scene.pin[0]; break;
	case 14: proof.stranger = true; break;
	}
}

static void spoil_run(int rule)
{
	switch (rule) {
	case 1: a.desc = NULL; break;
	case 2: a.kind = (aclrtMemcpyKind)8; break;
	case 3: a.stream = NULL; break;
	case 5: a.stream = GARBAGE; break;
	case 6: a.kind = ACL_MEMCPY_INTER_DEVICE_TO_DEVICE; break;
	case 7: a.desc = scene.pin[0] + 32; break;
	case 8: a.desc = (char *)a.desc + 32; break;
	case 9: proof.stranger = true; break;
	case 10: a.stream = scene.foreign; break;
	}
}

static const struct family f = {"aclrtSetMemcpyDesc", 14, unset, spoil_set, set};
static const struct family g = {"aclrtMemcpyAsyncWithDesc", 10, is_set, spoil_run, run};

/* One end or the descriptor changed, with everything else right. */
static void refused(const struct family *f, void *desc, void *src, void *dst, size_t count)
{
	f->good();
	a.desc = desc, a.src = src, a.dst = dst, a.count = count;
	expect(f);
	OK(aclrtSynchronizeStream(scene.stream));
	CHECK(is_old());
}

/* The product has descriptors of so many bytes; 0: none. */
static void sizes(size_t want)
{
	size_t n = 7;
	if (want > 0) {
		OK(aclrtGetMemcpyDescSize(ACL_MEMCPY_INNER_DEVICE_TO_DEVICE, &n));
		CHECK(n == want);
		n = 7;
		RULE("aclrtGetMemcpyDescSize", 4)
			for (int kind = 0; kind < 8; kind++)
				if (kind != ACL_MEMCPY_INNER_DEVICE_TO_DEVICE)
					EXPECT(aclrtGetMemcpyDescSize((aclrtMemcpyKind)kind, &n));
	} else
		RULE("aclrtGetMemcpyDescSize", 3) {
			EXPECT(aclrtGetMemcpyDescSize(ACL_MEMCPY_INNER_DEVICE_TO_DEVICE, &n));
			EXPECT(aclrtGetMemcpyDescSize(ACL_MEMCPY_HOST_TO_DEVICE, &n));
		}
	RULE("aclrtGetMemcpyDescSize", 1)
		EXPECT(aclrtGetMemcpyDescSize((aclrtMemcpyKind)8, NULL));
	RULE("aclrtGetMemcpyDescSize", 2) {
		EXPECT(aclrtGetMemcpyDescSize((aclrtMemcpyKind)8, &n));
		EXPECT(aclrtGetMemcpyDescSize((aclrtMemcpyKind)-1, &n));
	}
	CHECK(n == 7);
}

static void setting(void)
{
	for (int rule = 1; rule <= 14; rule++)
		if (rule != 7)
			RULE("aclrtSetMemcpyDesc", rule) {
				if (rule == 11)
					passed_on(ACL_ERROR_RT_PARAM_INVALID);
				breaks(&f, rule);
				if (rule == 11) {
					refused(&f, freed_device(), scene.dev[1], scene.dev[2], 64);
					refused(&f, scene.dev[0], freed_device(), scene.dev[2], 64);
					refused(&f, scene.dev[0], scene.dev[1], scene.dev[2], 1 << 20);
				} else if (rule == 12)
					refused(&f, scene.page[0], scene.dev[1], scene.dev[2], 64);
				else if (rule == 13) {
					refused(&f, scene.dev[0], scene.page[0], scene.dev[2], 64);
					refused(&f, scene.dev[0], scene.dev[1], scene.pin[0], 64);
					refused(&f, scene.dev[0], scene.far, scene.dev[2], 64);
					refused(&f, scene.dev[0], scene.dev[1], scene.far, 64);
				}
				CHECK(desc_is_old());
			}
}

static void works(void)
{
	is_set();
	OK(run());
	OK(aclrtSynchronizeStream(a.stream));
	CHECK(holds(scene.dev[2], 64, NEW) && holds_from(scene.dev[2], 64, 64, OLD, 64));
}

static void running(void)
{
	for (int rule = 1; rule <= 10; rule++)
		if (rule != 4)
			RULE("aclrtMemcpyAsyncWithDesc", rule) {
				breaks(&g, rule);
				if (rule == 5) {
					is_set();
					a.stream = scene.gone;
					expect(&g);
				} else if (rule == 7) {
					void *bad[] = {freed_device(), scene.page[0], scene.pin[0], scene.far};
					for (int i = 0; i < 4; i++)
						refused(&g, bad[i], scene.dev[1], scene.dev[2], 64);
				} else if (rule == 10) {
					uint32_t words[3];
					is_set();
					OK(aclrtMemcpy(words, sizeof words, a.desc, sizeof words, ACL_MEMCPY_DEVICE_TO_HOST));
					CHECK(words[0] == 0 && words[1] == 0 && words[2] == 0); /* until it is submitted */
					OK(run());
					OK(aclrtMemcpy(words, sizeof words, a.desc, sizeof words, ACL_MEMCPY_DEVICE_TO_HOST));
					CHECK(words[0] == 1 && words[1] == 0 && words[2] == 0);
					OK(aclrtSynchronizeStream(a.stream));
				} else
					CHECK(is_old());
			}
}

/* The arguments of the next copy with offsets; the cells are dev[0] and dev[1], the bases dev[2] and dev[3]. */
static struct {
	void **dst;
	size_t destMax, dstOff;
	const void **src;
	size_t count, srcOff;
	aclrtMemcpyKind kind;
	aclrtStream stream;
} o;

static void after_descriptor(void)
{
	fill(scene.dev[2], OLD);
	fill(scene.dev[3], NEW);
	OK(aclrtMemcpy(scene.dev[0], 8, &scene.dev[2], 8, ACL_MEMCPY_HOST_TO_DEVICE));
	OK(aclrtMemcpy(scene.dev[1], 8, &scene.dev[3], 8, ACL_MEMCPY_HOST_TO_DEVICE));
	o.dst = (void **)scene.dev[0], o.destMax = 128, o.dstOff = 32;
	o.src = (const void **)scene.dev[1], o.count = 64, o.srcOff = 16;
	o.kind = ACL_MEMCPY_INNER_DEVICE_TO_DEVICE;
	o.stream = scene.stream;
}

static int offset(void)
{
	return aclrtMemcpyAsyncWithOffset(o.dst, o.destMax, o.dstOff, o.src, o.count, o.srcOff, o.kind, o.stream);
}

static void spoil_offset(int rule)
{
	switch (rule) {
	case 1: o.count = 0; break;
	case 2: o.kind = ACL_MEMCPY_DEVICE_TO_DEVICE; break;
	case 4: o.stream = GARBAGE; break;
	case 5: o.dst = NULL; break;
	case 6: o.src = NULL; break;
	case 7: o.destMax = o.count - 1; break;
	case 8: o.count = ((size_t)4 << 30) + 1, o.destMax = (size_t)1 << 62; break;
	case 9: o.srcOff = (size_t)1 << 48; break;
	case 10: o.dstOff = (size_t)1 << 48, o.destMax = (size_t)1 << 62; break;
	case 11: o.dstOff = o.destMax; break;
	case 12: o.dstOff = o.destMax - o.count + 1; break;
	case 13: proof.stranger = true; break;
	case 14: o.src = freed_device(); break;
	case 15: o.stream = scene.foreign; break;
	}
}

static const struct family h = {"aclrtMemcpyAsyncWithOffset", 15, after_descriptor, spoil_offset, offset};

static void offsets(void)
{
	after_descriptor();
	OK(offset());
	OK(aclrtSynchronizeStream(o.stream));
	CHECK(holds(scene.dev[2], 32, OLD) && holds_from(scene.dev[2], 32, 64, NEW, 16) && holds_from(scene.dev[2], 96, 32, OLD, 96));
	for (int rule = 1; rule <= 15; rule++)
		if (rule != 3)
			RULE("aclrtMemcpyAsyncWithOffset", rule) {
				if (rule == 14)
					passed_on(ACL_ERROR_RT_PARAM_INVALID);
				breaks(&h, rule);
				after_descriptor();
				if (rule == 2)
					for (int kind = -1; kind <= 8; kind++) {
						o.kind = (aclrtMemcpyKind)kind;
						if (kind != ACL_MEMCPY_INNER_DEVICE_TO_DEVICE)
							expect(&h);
					}
				else if (rule == 14) {
					o.dst = freed_device();
					expect(&h);
				}
				OK(aclrtSynchronizeStream(scene.stream));
				CHECK(holds(scene.dev[2], ROOM, OLD));
			}
	/* The cells are looked at again when the copy runs. */
	after_descriptor();
	fill(scene.dev[1], 1);
	OK(offset());
	IS(ACL_ERROR_RT_SYS_DMA, aclrtSynchronizeStream(o.stream));
	CHECK(holds(scene.dev[2], ROOM, OLD));
}

void rules_descriptor(const char *machine)
{
	if (strcmp(machine, "310P") == 0) { /* the product breaks these rules: it has none of the calls */
		sizes(0);
		prove(&f, 7);
		RULE("aclrtMemcpyAsyncWithDesc", 4) {
			unset();
			expect(&g);
			for (int rule = 10; rule > 4; rule--)
				spoil_run(rule);
			expect(&g);
		}
		prove(&h, 3);
	}
	if (strcmp(machine, "950") == 0) {
		sizes(64);
		works();
	}
	if (strcmp(machine, "A2") != 0)
		return;
	sizes(32);
	works();
	setting();
	running();
	offsets();
}
