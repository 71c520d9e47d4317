/* Sentences about aclrtMemcpyAsyncWithDesc. */
#include "seeds.h"
#include "seeds_list.h"

#define INNER ACL_MEMCPY_INNER_DEVICE_TO_DEVICE

enum { SIZE = 100 };

static void *desc;

static bool arrived(void) { return holds(scene.dev[1], SIZE, NEW) && holds_from(scene.dev[1], SIZE, 64, OLD, SIZE); }
static bool is_old(void) { return holds(scene.dev[1], SIZE + 64, OLD); }

/* The first steps of the document, as far as the product has them: false if it does not, and says so. */
static bool prepared(void)
{
	size_t size = 0;
	fill(scene.dev[0], NEW);
	fill(scene.dev[1], OLD);
	desc = scene.dev[2];
	if (!machine.desc) {
		IS(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclrtGetMemcpyDescSize(INNER, &size));
		IS(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclrtSetMemcpyDesc(desc, INNER, scene.dev[0], scene.dev[1], SIZE, NULL));
		IS(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclrtMemcpyAsyncWithDesc(desc, INNER, scene.stream));
		return false;
	}
	OK(aclrtGetMemcpyDescSize(INNER, &size));
	CHECK(size == (strcmp(machine.product, "950") == 0 ? 64 : 32) && size <= ROOM);
	OK(aclrtSetMemcpyDesc(desc, INNER, scene.dev[0], scene.dev[1], SIZE, NULL));
	return true;
}

void desc_products(void) { CHECK(prepared() == machine.desc); }
void desc_size(void) { CHECK(prepared() == machine.desc); }

void desc_copies(void)
{
	if (!prepared())
		return;
	OK(aclrtMemcpyAsyncWithDesc(desc, INNER, scene.stream));
	OK(synchronise());
	CHECK(arrived() && holds(scene.dev[0], ROOM, NEW));
}

void desc_prototype(void)
{
	aclError (*function)(void *, aclrtMemcpyKind, aclrtStream) = aclrtMemcpyAsyncWithDesc;
	if (!prepared())
		return;
	OK(function(desc, INNER, scene.stream));
	OK(synchronise());
	CHECK(arrived());
}

void desc_delivers(void)
{
	struct gate gate;
	if (!prepared())
		return;
	block(&gate, scene.stream);
	OK(aclrtMemcpyAsyncWithDesc(desc, INNER, scene.stream));
	CHECK(is_old());
	OK(unblock(&gate, scene.stream));
	CHECK(arrived());
}

void desc_memory(void)
{
	if (!prepared() || machine.rc) /* where all memory is the device's */
		return;
	void *wrong[] = {scene.pin[2], scene.page[2]};
	for (int i = 0; i < 2; i++) {
		IS(ACL_ERROR_RT_PARAM_INVALID, aclrtSetMemcpyDesc(wrong[i], INNER, scene.dev[0], scene.dev[1], SIZE, NULL));
		IS(ACL_ERROR_RT_PARAM_INVALID, aclrtMemcpyAsyncWithDesc(wrong[i], INNER, scene.stream));
	}
	OK(synchronise());
	CHECK(is_old());
}

void desc_set(void)
{
	if (!prepared())
		return;
	/* What is set last counts: other memory, another length. */
	fill(scene.dev[3], OLD);
	OK(aclrtSetMemcpyDesc(desc, INNER, scene.dev[0] + 64, scene.dev[3], SIZE + 1, NULL));
	OK(aclrtMemcpyAsyncWithDesc(desc, INNER, scene.stream));
	OK(synchronise());
	CHECK(is_old());
	CHECK(holds_from(scene.dev[3], 0, SIZE + 1, NEW, 64) && holds_from(scene.dev[3], SIZE + 1, 64, OLD, SIZE + 1));
	/* Nothing returns success without its work: a length that does not fit is refused. */
	IS(ACL_ERROR_RT_PARAM_INVALID, aclrtSetMemcpyDesc(desc, INNER, scene.dev[0], scene.dev[1], (size_t)4 << 30, NULL));
}

void desc_kind(void)
{
	if (!prepared())
		return;
	for (int kind = 0; kind < 8; kind++) {
		if (kind == INNER)
			continue;
		IS(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclrtSetMemcpyDesc(desc, (aclrtMemcpyKind)kind, scene.dev[0], scene.dev[1], SIZE, NULL));
		IS(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclrtMemcpyAsyncWithDesc(desc, (aclrtMemcpyKind)kind, scene.stream));
	}
	OK(synchronise());
	CHECK(INNER == 6 && is_old());
	if (machine.rc)
		return;
	IS(ACL_ERROR_RT_PARAM_INVALID, aclrtSetMemcpyDesc(desc, INNER, scene.pin[0], scene.dev[1], SIZE, NULL));
	IS(ACL_ERROR_RT_PARAM_INVALID, aclrtSetMemcpyDesc(desc, INNER, scene.dev[0], scene.pin[0], SIZE, NULL));
}

void desc_stream(void)
{
	struct gate gate;
	aclrtStream other;
	if (!prepared())
		return;
	OK(aclrtCreateStream(&other));
	block(&gate, other);
	OK(aclrtMemcpyAsyncWithDesc(desc, INNER, other));
	OK(synchronise());
	CHECK(is_old());
	OK(unblock(&gate, other));
	CHECK(arrived());
	OK(aclrtDestroyStream(other));
	IS(ACL_ERROR_RT_INVALID_HANDLE, aclrtMemcpyAsyncWithDesc(desc, INNER, scene.gone));
}

void desc_returns(void)
{
	if (!prepared())
		return;
	IS(0, aclrtMemcpyAsyncWithDesc(desc, INNER, scene.stream));
	CHECK(aclrtMemcpyAsyncWithDesc(NULL, INNER, scene.stream) != 0 && aclrtMemcpyAsyncWithDesc(desc, INNER, NULL) != 0);
	CHECK(aclrtMemcpyAsyncWithDesc((char *)desc + 8, INNER, scene.stream) != 0);
	OK(synchronise());
}
