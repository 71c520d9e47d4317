/* Groups notify, cntnotify and stream-memory: what streams wait for besides events. */
#include "proof.h"

void functions_signals(void);
void functions_counting(void);

/* Whether a stream is held up: what is queued on it does not run. */
static bool waits(aclrtStream stream)
{
	aclrtStreamStatus status = (aclrtStreamStatus)9;
	OK(aclrtStreamQuery(stream, &status));
	return status == ACL_STREAM_STATUS_NOT_READY;
}

static void notifies(void)
{
	aclrtNotify n, gone;
	aclrtStream other;
	OK(aclrtCreateStream(&other));
	OK(aclrtCreateNotify(&gone, 0));
	FUNCTION("aclrtDestroyNotify") {
		OK(aclrtDestroyNotify(gone));
		EFFECT(aclrtRecordNotify(gone, scene.stream) == ACL_ERROR_RT_INVALID_HANDLE);
	}
	FUNCTION("aclrtCreateNotify") {
		n = NULL;
		OK(aclrtCreateNotify(&n, 0));
		EFFECT(n != NULL);
		NO_CONTEXT
			REFUSES("no-context", aclrtCreateNotify(&gone, 0));
	}
	FUNCTION("aclrtWaitAndResetNotify") {
		OK(aclrtWaitAndResetNotify(n, scene.stream, 0));
		EFFECT(waits(scene.stream));
	}
	FUNCTION("aclrtRecordNotify") {
		OK(aclrtRecordNotify(n, other));
		OK(aclrtSynchronizeStream(scene.stream));
		EFFECT(!waits(scene.stream));
	}
	FUNCTION("aclrtGetNotifyId") {
		uint32_t id = UINT32_MAX;
		OK(aclrtGetNotifyId(n, &id));
		EFFECT(id != UINT32_MAX);
	}
	FUNCTION("aclrtNotifyBatchReset") {
		aclrtNotify both[2] = {n, gone};
		OK(aclrtRecordNotify(n, other));
		OK(aclrtSynchronizeStream(other));
		OK(aclrtNotifyBatchReset(both, 1));
		OK(aclrtWaitAndResetNotify(n, scene.stream, 0));
		EFFECT(waits(scene.stream)); /* the record is forgotten */
		OK(aclrtRecordNotify(n, other));
		OK(aclrtSynchronizeStream(scene.stream));
		REFUSES("entry-not-live", aclrtNotifyBatchReset(both, 2));
		both[1] = NULL;
		REFUSES("entry-null", aclrtNotifyBatchReset(both, 2));
	}
	OK(aclrtDestroyNotify(n));
	OK(aclrtDestroyStream(other));
}

static uint64_t word_at(const void *p)
{
	uint64_t word;
	OK(aclrtMemcpy(&word, sizeof word, p, sizeof word, ACL_MEMCPY_DEVICE_TO_HOST));
	return word;
}

static void values(void)
{
	unsigned char *word = scene.dev[0];
	aclrtStream other;
	OK(aclrtCreateStream(&other));
	OK(aclrtMemset(word, 8, 0, 8));
	FUNCTION("aclrtValueWait") {
		OK(aclrtValueWait(word, 7, ACL_STREAM_WAIT_VALUE_EQ, scene.stream));
		EFFECT(waits(scene.stream));
		REFUSES("not-device", aclrtValueWait(scene.pin[0], 7, ACL_STREAM_WAIT_VALUE_EQ, other));
	}
	FUNCTION("aclrtValueWrite") {
		OK(aclrtValueWrite(word, 7, 0, other));
		OK(aclrtSynchronizeStream(scene.stream));
		EFFECT(word_at(word) == 7);
		REFUSES("not-device", aclrtValueWrite(scene.page[0], 7, 0, other));
	}
	OK(aclrtDestroyStream(other));
}

void functions_signals(void)
{
	notifies();
	values();
}

/* On a 950. */
void functions_counting(void)
{
	aclrtCntNotify n = NULL;
	aclrtStream other;
	OK(aclrtCreateStream(&other));
	aclrtCntNotifyRecordInfo record = {.mode = ACL_RT_CNT_NOTIFY_RECORD_SET_VALUE_MODE, .value = 5};
	aclrtCntNotifyWaitInfo wait = {.mode = ACL_RT_CNT_NOTIFY_WAIT_EQUAL_MODE, .value = 5};
	FUNCTION("aclrtCntNotifyCreate") {
		OK(aclrtCntNotifyCreate(&n, 0));
		EFFECT(n != NULL);
	}
	FUNCTION("aclrtCntNotifyGetId") {
		uint32_t id = UINT32_MAX;
		OK(aclrtCntNotifyGetId(n, &id));
		EFFECT(id != UINT32_MAX);
	}
	FUNCTION("aclrtCntNotifyWaitWithTimeout") {
		OK(aclrtCntNotifyWaitWithTimeout(n, scene.stream, &wait));
		EFFECT(waits(scene.stream));
	}
	FUNCTION("aclrtCntNotifyRecord") {
		OK(aclrtCntNotifyRecord(n, other, &record));
		OK(aclrtSynchronizeStream(scene.stream));
		EFFECT(!waits(scene.stream));
	}
	FUNCTION("aclrtCntNotifyReset") {
		OK(aclrtCntNotifyReset(n, other));
		OK(aclrtSynchronizeStream(other));
		OK(aclrtCntNotifyWaitWithTimeout(n, scene.stream, &wait)); /* it was 5 */
		EFFECT(waits(scene.stream));
		OK(aclrtCntNotifyRecord(n, other, &record));
		OK(aclrtSynchronizeStream(scene.stream));
	}
	FUNCTION("aclrtCntNotifyDestroy") {
		OK(aclrtCntNotifyDestroy(n));
		EFFECT(aclrtCntNotifyRecord(n, other, &record) == ACL_ERROR_RT_INVALID_HANDLE);
	}
	OK(aclrtDestroyStream(other));
}
