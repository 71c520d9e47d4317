/* Group overflow-status: whether floats overflowed. */
#include <float.h>
#include "proof.h"

void functions_overflow(void);

/* Queues a sum that overflows. */
static void overflow(void)
{
	float most = FLT_MAX;
	for (int i = 0; i < 2; i++)
		OK(aclrtMemcpy(scene.dev[i], ROOM, &most, sizeof most, ACL_MEMCPY_HOST_TO_DEVICE));
	OK(aclrtReduceAsync(scene.dev[0], scene.dev[1], sizeof most, ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM, ACL_FLOAT, scene.stream, NULL));
	OK(aclrtSynchronizeStream(scene.stream));
}

/* The status that was written to device memory: 64 bytes, of which only the first word may be other than 0. */
static uint64_t status(void *p)
{
	uint64_t words[8];
	OK(aclrtSynchronizeStream(scene.stream));
	OK(aclrtMemcpy(words, sizeof words, p, sizeof words, ACL_MEMCPY_DEVICE_TO_HOST));
	for (int i = 1; i < 8; i++)
		EFFECT(words[i] == 0);
	EFFECT(holds_from(p, 64, 64, NEW, 64));
	return words[0];
}

void functions_overflow(void)
{
	struct gate gate;
	aclrtStreamStatus state = ACL_STREAM_STATUS_RESERVED;
	uint64_t at = (uint64_t)(uintptr_t)scene.dev[0];
	overflow();
	FUNCTION("aclrtGetOverflowStatus") {
		fill(scene.dev[0], NEW);
		OK(aclrtGetOverflowStatus(scene.dev[0], 64, scene.stream));
		EFFECT(status(scene.dev[0]) == 1);
	}
	FUNCTION("aclrtResetOverflowStatus") {
		block(&gate, scene.stream);
		OK(aclrtResetOverflowStatus(scene.stream));
		OK(aclrtStreamQuery(scene.stream, &state));
		EFFECT(state == ACL_STREAM_STATUS_NOT_READY);
		OK(unblock(&gate, scene.stream));
		OK(aclrtGetOverflowStatus(scene.dev[0], 64, scene.stream));
		EFFECT(status(scene.dev[0]) == 0);
	}
	overflow();
	FUNCTION("aclrtGetFloatOverflowStatus") {
		fill(scene.dev[0], NEW);
		OK(aclrtGetFloatOverflowStatus(scene.dev[0], 64, scene.stream));
		EFFECT(status(scene.dev[0]) == 1);
	}
	FUNCTION("aclrtNpuGetFloatOverFlowStatus") {
		fill(scene.dev[0], NEW);
		OK(aclrtMemcpy(scene.dev[1], ROOM, &at, sizeof at, ACL_MEMCPY_HOST_TO_DEVICE));
		OK(aclrtNpuGetFloatOverFlowStatus(scene.dev[1], 64, 0, scene.stream));
		EFFECT(status(scene.dev[0]) == 1);
	}
	FUNCTION("aclrtNpuClearFloatOverFlowStatus") {
		OK(aclrtNpuClearFloatOverFlowStatus(0, scene.stream));
		OK(aclrtGetOverflowStatus(scene.dev[0], 64, scene.stream));
		EFFECT(status(scene.dev[0]) == 0);
	}
	FUNCTION("aclrtResetFloatOverflowStatus") {
		overflow();
		OK(aclrtResetFloatOverflowStatus(scene.stream));
		fill(scene.dev[0], NEW);
		OK(aclrtGetOverflowStatus(scene.dev[0], 64, scene.stream));
		EFFECT(status(scene.dev[0]) == 0);
	}
}
