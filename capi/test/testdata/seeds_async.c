/* Sentences about aclrtMemcpyAsync. */
#include "seeds.h"
#include "seeds_list.h"

#define H2H ACL_MEMCPY_HOST_TO_HOST
#define H2D ACL_MEMCPY_HOST_TO_DEVICE
#define D2H ACL_MEMCPY_DEVICE_TO_HOST
#define D2D ACL_MEMCPY_DEVICE_TO_DEVICE

enum { SIZE = 100 };

/* New bytes in the first of everything, old ones in the second, and in device memory. */
static void fresh(void)
{
	fill(scene.dev[0], OLD);
	fill(scene.dev[1], NEW);
	fill(scene.pin[0], NEW);
	fill(scene.pin[1], OLD);
	fill(scene.page[0], NEW);
	fill(scene.page[1], OLD);
}

static int copy(void *dst, const void *src, aclrtMemcpyKind kind)
{
	return aclrtMemcpyAsync(dst, SIZE, src, SIZE, kind, scene.stream);
}

static bool arrived(const void *dst) { return holds(dst, SIZE, NEW) && holds_from(dst, SIZE, 64, OLD, SIZE); }
static bool is_old(const void *dst) { return holds(dst, SIZE + 64, OLD); }

void async_prototype(void)
{
	aclError (*function)(void *, size_t, const void *, size_t, aclrtMemcpyKind, aclrtStream) = aclrtMemcpyAsync;
	fresh();
	OK(function(scene.dev[0], SIZE, scene.pin[0], SIZE, H2D, scene.stream));
	OK(synchronise());
	CHECK(arrived(scene.dev[0]));
}

void async_copies(void)
{
	fresh();
	OK(aclrtMemcpyAsync(scene.dev[0] + 64, SIZE, scene.pin[0] + 128, SIZE, H2D, scene.stream));
	OK(synchronise());
	CHECK(holds(scene.dev[0], 64, OLD));
	CHECK(holds_from(scene.dev[0], 64, SIZE, NEW, 128));
	CHECK(holds_from(scene.dev[0], 64 + SIZE, 1024, OLD, 64 + SIZE));
	CHECK(holds(scene.pin[0], ROOM, NEW));
}

void async_dest_max(void)
{
	fresh();
	IS(ACL_ERROR_RT_PARAM_INVALID, aclrtMemcpyAsync(scene.dev[0], SIZE - 1, scene.pin[0], SIZE, H2D, scene.stream));
	OK(synchronise());
	CHECK(is_old(scene.dev[0]));
	for (size_t room = SIZE; room <= ROOM; room += ROOM - SIZE) {
		OK(aclrtMemcpyAsync(scene.dev[0], room, scene.pin[0], SIZE, H2D, scene.stream));
		OK(synchronise());
		CHECK(arrived(scene.dev[0]));
	}
}

void async_kinds(void)
{
	fresh();
	fill(scene.dev[2], OLD);
	CHECK(H2H == 0 && H2D == 1 && D2H == 2 && D2D == 3);
	OK(copy(scene.dev[0], scene.pin[0], (aclrtMemcpyKind)1));
	OK(copy(scene.dev[2], scene.dev[0], (aclrtMemcpyKind)3));
	OK(copy(scene.pin[1], scene.dev[2], (aclrtMemcpyKind)2));
	OK(synchronise());
	CHECK(arrived(scene.dev[0]) && arrived(scene.dev[2]) && arrived(scene.pin[1]));
}

void async_stream(void)
{
	struct gate gate;
	aclrtStream other;
	fresh();
	OK(aclrtCreateStream(&other));
	block(&gate, other);
	OK(aclrtMemcpyAsync(scene.dev[0], SIZE, scene.pin[0], SIZE, H2D, other));
	OK(synchronise()); /* of a stream that the copy does not belong to */
	CHECK(is_old(scene.dev[0]));
	OK(unblock(&gate, other));
	CHECK(arrived(scene.dev[0]));
	OK(aclrtDestroyStream(other));
	IS(ACL_ERROR_RT_INVALID_HANDLE, aclrtMemcpyAsync(scene.dev[0], SIZE, scene.pin[0], SIZE, H2D, scene.gone));
}

void async_returns(void)
{
	fresh();
	IS(0, copy(scene.dev[0], scene.pin[0], H2D));
	CHECK(copy(NULL, scene.pin[0], H2D) != 0 && copy(scene.dev[0], NULL, H2D) != 0);
	CHECK(copy(scene.dev[0], scene.pin[0], (aclrtMemcpyKind)99) != 0);
	CHECK(aclrtMemcpyAsync(scene.dev[0], SIZE, scene.pin[0], SIZE, H2D, GARBAGE) != 0);
	OK(synchronise());
}

void async_alignment(void)
{
	bool refused = machine.strict || machine.oldest;
	for (size_t by = 1; by < 64; by += 31) {
		fresh();
		IS(refused ? ACL_ERROR_RT_PARAM_INVALID : 0, copy(scene.dev[0], scene.pin[0] + by, H2D));
		OK(synchronise());
		CHECK(refused ? is_old(scene.dev[0]) : holds_from(scene.dev[0], 0, SIZE, NEW, by));
		fresh();
		IS(refused ? ACL_ERROR_RT_PARAM_INVALID : 0, copy(scene.dev[0] + by, scene.pin[0], H2D));
		OK(synchronise());
		CHECK(refused ? is_old(scene.dev[0]) : holds_from(scene.dev[0], by, SIZE, NEW, 0));
	}
	fresh();
	OK(copy(scene.dev[0] + 64, scene.pin[0] + 64, H2D));
	OK(synchronise());
	CHECK(holds_from(scene.dev[0], 64, SIZE, NEW, 64));
}

void async_delivers(void)
{
	struct gate gate;
	fresh();
	block(&gate, scene.stream);
	OK(copy(scene.dev[0], scene.pin[0], H2D));
	OK(copy(scene.pin[1], scene.dev[1], D2H));
	CHECK(is_old(scene.dev[0]) && is_old(scene.pin[1]));
	OK(unblock(&gate, scene.stream));
	CHECK(arrived(scene.dev[0]) && arrived(scene.pin[1]));
}

void async_synchronised(void)
{
	for (int round = 0; round < 8; round++) {
		fresh();
		OK(aclrtMemcpyAsync(scene.dev[0], ROOM, scene.pin[0], ROOM, H2D, scene.stream));
		OK(aclrtMemcpyAsync(scene.pin[1], ROOM, scene.dev[0], ROOM, D2H, scene.stream));
		OK(synchronise());
		CHECK(holds(scene.dev[0], ROOM, NEW) && holds(scene.pin[1], ROOM, NEW));
	}
}

/* A copy with ordinary host memory may fail when it runs on the oldest product, and elsewhere is complete when the call returns. */
static void ordinary(void *dst, const void *src, aclrtMemcpyKind kind)
{
	if (machine.oldest && !machine.rc) {
		IS(0, copy(dst, src, kind));
		IS(TASK_FAILS, synchronise());
		CHECK(is_old(dst));
		return;
	}
	OK(copy(dst, src, kind));
	CHECK(arrived(dst));
}

void async_pageable(void)
{
	fresh();
	ordinary(scene.dev[0], scene.page[0], H2D);
	ordinary(scene.page[1], scene.dev[1], D2H);
	if (machine.oldest)
		return;
	fresh(); /* also after what is queued */
	OK(copy(scene.pin[1], scene.dev[1], D2H));
	OK(copy(scene.dev[0], scene.page[0], H2D));
	CHECK(arrived(scene.pin[1]) && arrived(scene.dev[0]));
}

void async_host_memory(void)
{
	fresh();
	OK(copy(scene.dev[0], scene.pin[0], H2D));
	OK(synchronise());
	CHECK(arrived(scene.dev[0]));
	fresh();
	ordinary(scene.dev[0], scene.page[0], H2D);
}

void async_product(void)
{
	static const char *const names[][2] = {{"A2", "Ascend910B"}, {"A3", "Ascend910_9"}, {"950", "Ascend950"}, {"310", "Ascend310"},
		{"310B", "Ascend310B"}, {"310P", "Ascend310P"}, {"910", "Ascend910A"}};
	bool found = false;
	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
		if (strcmp(names[i][0], machine.product) == 0)
			found = strncmp(aclrtGetSocName(), names[i][1], strlen(names[i][1])) == 0;
	CHECK(found);
	async_copies();
}

void async_board(void)
{
	aclrtRunMode mode;
	OK(aclrtGetRunMode(&mode));
	CHECK(mode == (machine.rc ? ACL_DEVICE : ACL_HOST));
	if (!machine.rc)
		return;
	aclrtPtrAttributes at;
	OK(aclrtPointerGetAttributes(scene.pin[0], &at));
	CHECK(at.location.type == ACL_MEM_LOCATION_TYPE_DEVICE); /* all memory is the device's */
	for (int kind = 0; kind <= 2; kind++) {
		fresh();
		OK(copy(scene.dev[0], scene.pin[0], (aclrtMemcpyKind)kind));
		OK(copy(scene.pin[1], scene.dev[1], (aclrtMemcpyKind)kind));
		OK(synchronise());
		CHECK(arrived(scene.dev[0]) && arrived(scene.pin[1]));
	}
}

void async_host_to_host(void)
{
	void *ends[][2] = {{scene.dev[0], scene.pin[0]}, {scene.pin[1], scene.pin[0]}, {scene.dev[0], scene.dev[1]},
		{scene.page[1], scene.page[0]}, {scene.dev[0], scene.page[0]}, {scene.pin[1], scene.dev[1]}};
	for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
		void *dst = ends[i][0];
		fresh();
		int code = copy(dst, ends[i][1], H2H);
		if (machine.rc) {
			IS(0, code);
			OK(synchronise());
			CHECK(arrived(dst));
		} else if (machine.no_host_kind || (machine.strict && !machine.oldest)) {
			IS(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, code);
			OK(synchronise());
			CHECK(is_old(dst));
		} else if (machine.oldest) {
			IS(0, code);
			IS(TASK_FAILS, synchronise());
			CHECK(is_old(dst));
		} else if (i == 1 || i == 3) { /* it is one, and no product makes it */
			IS(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, code);
			CHECK(is_old(dst));
		} else if (i != 4) { /* no document speaks: the real direction counts */
			IS(0, code);
			OK(synchronise());
			CHECK(arrived(dst));
		}
	}
}
