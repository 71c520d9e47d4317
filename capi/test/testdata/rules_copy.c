/* Rules of aclrtMemcpy. */
#include "proof.h"

void rules_copy(const char *machine);

/* The arguments of the next call. */
static struct {
	void *dst;
	size_t destMax;
	const void *src;
	size_t count;
	aclrtMemcpyKind kind;
} a;

/* A copy of 64 pinned bytes to the device. */
static void good(void)
{
	fill(scene.dev[0], OLD);
	fill(scene.pin[0], NEW);
	a.dst = scene.dev[0];
	a.destMax = a.count = 64;
	a.src = scene.pin[0];
	a.kind = ACL_MEMCPY_HOST_TO_DEVICE;
}

static int call(void) { return aclrtMemcpy(a.dst, a.destMax, a.src, a.count, a.kind); }

static void spoil(int rule)
{
	switch (rule) {
	case 1: a.count = 0; break;
	case 2: a.dst = NULL; break;
	case 3: a.src = NULL; break;
	case 4: a.kind = ACL_MEMCPY_INNER_DEVICE_TO_DEVICE; break;
	case 5: a.destMax = 0; break;
	case 6: a.destMax = a.count - 1; break;
	case 7: a.dst = (void *)a.src; break;
	case 8: proof.stranger = true; break;
	case 11: a.src = freed_device(); break;
	}
}

static const struct family f = {"aclrtMemcpy", 11, good, spoil, call};

/* Refused, and nothing was written. */
static void refused(void *dst, const void *src, size_t count)
{
	good();
	a.dst = dst;
	a.destMax = a.count = count;
	a.src = src;
	a.kind = ACL_MEMCPY_DEFAULT;
	expect(&f);
	CHECK(holds(scene.dev[0], ROOM, OLD));
}

/* On the A3 copies between devices need no permission; elsewhere they are refused. */
static void between_devices(const char *machine)
{
	good();
	fill(scene.dev[0], NEW);
	if (strcmp(machine, "A3") == 0) {
		OK(aclrtMemcpy(scene.far, 64, scene.dev[0], 64, ACL_MEMCPY_DEVICE_TO_DEVICE));
		CHECK(holds(scene.far, 64, NEW));
		return;
	}
	refused(scene.far, scene.dev[0], 64);
	refused(scene.dev[0], scene.far, 64);
}

void rules_copy(const char *machine)
{
	if (strcmp(machine, "A3") == 0)
		between_devices(machine);
	if (strcmp(machine, "A2") != 0)
		return;
	for (int rule = 1; rule <= 8; rule++)
		if (rule != 4)
			prove(&f, rule);
	CHECK(holds(scene.dev[0], 64, OLD));
	RULE("aclrtMemcpy", 4) {
		static const int kinds[] = {-1, INT32_MIN, 6, 7, 8, INT32_MAX};
		for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
			good();
			a.kind = (aclrtMemcpyKind)kinds[i];
			expect(&f);
		}
		breaks(&f, 4);
	}
	RULE("aclrtMemcpy", 9) {
		struct abort abort;
		good();
		abort_begin(&abort);
		expect(&f);
		a.src = scene.far; /* before the addresses are looked at */
		expect(&f);
		abort_end(&abort);
		CHECK(holds(scene.dev[0], 64, OLD));
	}
	RULE("aclrtMemcpy", 11) {
		breaks(&f, 11);
		refused(scene.dev[0], freed_pinned(), 64);
		refused(freed_device(), scene.pin[0], 64);
		refused(scene.dev[0], scene.dev[1], 1 << 20);
		refused(scene.dev[0] + ROOM - 64, scene.page[0], 512); /* an allocation has a little more room than was asked for */
		refused(scene.dev[0], scene.hole, ROOM);
		refused(scene.dev[0], (void *)16, 64);
		refused(scene.hole, scene.dev[0], ROOM);
		CHECK(hole_is_whole());
		between_devices(machine);
	}
}
