/* Group cmo: hints about caches. */
#include "proof.h"

void functions_cmo(void);
void functions_barriers(void);

void functions_cmo(void)
{
	struct gate gate;
	aclrtStreamStatus state = ACL_STREAM_STATUS_RESERVED;
	size_t size = 0;
	FUNCTION("aclrtCmoAsync") {
		fill(scene.dev[0], NEW);
		block(&gate, scene.stream);
		OK(aclrtCmoAsync(scene.dev[0], ROOM, ACL_RT_CMO_TYPE_PREFETCH, scene.stream));
		OK(aclrtStreamQuery(scene.stream, &state));
		EFFECT(state == ACL_STREAM_STATUS_NOT_READY);
		OK(unblock(&gate, scene.stream));
		OK(aclrtCmoAsync(GARBAGE, ROOM, ACL_RT_CMO_TYPE_FLUSH, NULL));
		OK(aclrtSynchronizeStream(NULL));
		EFFECT(holds(scene.dev[0], ROOM, NEW));
	}
	FUNCTION("aclrtCmoGetDescSize") {
		OK(aclrtCmoGetDescSize(&size));
		EFFECT(size == 32);
	}
	FUNCTION("aclrtCmoSetDesc") {
		unsigned char desc[32];
		uint32_t length;
		void *src;
		OK(aclrtCmoSetDesc(scene.dev[1], scene.dev[0], 77));
		OK(aclrtMemcpy(desc, sizeof desc, scene.dev[1], sizeof desc, ACL_MEMCPY_DEVICE_TO_HOST));
		memcpy(&length, desc + 12, sizeof length);
		memcpy(&src, desc + 16, sizeof src);
		EFFECT(length == 77 && src == scene.dev[0]);
		REFUSES("driver-refuses-range", aclrtCmoSetDesc(GARBAGE, scene.dev[0], 77));
	}
	FUNCTION("aclrtCmoAsyncWithDesc") {
		EFFECT(aclrtCmoAsyncWithDesc(scene.dev[1], ACL_RT_CMO_TYPE_PREFETCH, NULL, NULL) == ACL_ERROR_RT_INTERNAL_ERROR);
		REFUSES("stream-not-bound", aclrtCmoAsyncWithDesc(scene.dev[1], ACL_RT_CMO_TYPE_PREFETCH, scene.stream, NULL));
	}
}

/* On a 310B. */
void functions_barriers(void)
{
	aclrtBarrierTaskInfo info = {.barrierNum = 1, .cmoInfo = {{ACL_RT_CMO_TYPE_INVALID, 1}}};
	FUNCTION("aclrtCmoAsyncWithBarrier") {
		EFFECT(aclrtCmoAsyncWithBarrier(scene.dev[0], 64, ACL_RT_CMO_TYPE_PREFETCH, 0, NULL) == ACL_ERROR_RT_INTERNAL_ERROR);
		REFUSES("stream-not-bound", aclrtCmoAsyncWithBarrier(scene.dev[0], 64, ACL_RT_CMO_TYPE_INVALID, 1, scene.stream));
	}
	FUNCTION("aclrtCmoWaitBarrier") {
		EFFECT(aclrtCmoWaitBarrier(&info, NULL, 0) == ACL_ERROR_RT_INTERNAL_ERROR);
		info.cmoInfo[0].cmoType = ACL_RT_CMO_TYPE_FLUSH;
		REFUSES("entry-type", aclrtCmoWaitBarrier(&info, scene.stream, 0));
		info.cmoInfo[0].cmoType = ACL_RT_CMO_TYPE_INVALID;
		info.cmoInfo[0].barrierId = 0;
		REFUSES("entry-barrierId-0", aclrtCmoWaitBarrier(&info, scene.stream, 0));
	}
}
