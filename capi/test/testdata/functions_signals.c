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
		REFUSES(1, aclrtDestroyNotify(NULL));
		REFUSES(2, aclrtDestroyNotify(gone));
	}
	FUNCTION("aclrtCreateNotify") {
		n = NULL;
		OK(aclrtCreateNotify(&n, 0));
		EFFECT(n != NULL);
		REFUSES(1, aclrtCreateNotify(NULL, 0));
		REFUSES(2, aclrtCreateNotify(&gone, 2));
		NO_CONTEXT
			REFUSES(3, aclrtCreateNotify(&gone, 0));
	}
	FUNCTION("aclrtWaitAndResetNotify") {
		OK(aclrtWaitAndResetNotify(n, scene.stream, 0));
		EFFECT(waits(scene.stream));
		REFUSES(1, aclrtWaitAndResetNotify(NULL, scene.stream, 0));
		REFUSES(2, aclrtWaitAndResetNotify(gone, scene.stream, 0));
		REFUSES(3, aclrtWaitAndResetNotify(n, scene.gone, 0));
		REFUSES(5, aclrtWaitAndResetNotify(n, scene.foreign, 0));
	}
	FUNCTION("aclrtRecordNotify") {
		OK(aclrtRecordNotify(n, other));
		OK(aclrtSynchronizeStream(scene.stream));
		EFFECT(!waits(scene.stream));
		REFUSES(1, aclrtRecordNotify(NULL, other));
		REFUSES(2, aclrtRecordNotify(gone, other));
		REFUSES(3, aclrtRecordNotify(n, scene.gone));
		REFUSES(5, aclrtRecordNotify(n, scene.foreign));
	}
	FUNCTION("aclrtGetNotifyId") {
		uint32_t id = UINT32_MAX;
		OK(aclrtGetNotifyId(n, &id));
		EFFECT(id != UINT32_MAX);
		REFUSES(1, aclrtGetNotifyId(NULL, &id));
		REFUSES(2, aclrtGetNotifyId(n, NULL));
		REFUSES(3, aclrtGetNotifyId(gone, &id));
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
		REFUSES(1, aclrtNotifyBatchReset(NULL, 1));
		REFUSES(2, aclrtNotifyBatchReset(both, 0));
		REFUSES(4, aclrtNotifyBatchReset(both, 2));
		both[1] = NULL;
		REFUSES(5, aclrtNotifyBatchReset(both, 2));
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
		REFUSES(1, aclrtValueWait(NULL, 7, ACL_STREAM_WAIT_VALUE_EQ, other));
		REFUSES(3, aclrtValueWait(word, 7, ACL_STREAM_WAIT_VALUE_EQ, scene.gone));
		REFUSES(4, aclrtValueWait(word, 7, 4, other));
		REFUSES(6, aclrtValueWait(scene.pin[0], 7, ACL_STREAM_WAIT_VALUE_EQ, other));
		REFUSES(8, aclrtValueWait(word, 7, ACL_STREAM_WAIT_VALUE_EQ, scene.foreign));
	}
	FUNCTION("aclrtValueWrite") {
		OK(aclrtValueWrite(word, 7, 0, other));
		OK(aclrtSynchronizeStream(scene.stream));
		EFFECT(word_at(word) == 7);
		REFUSES(1, aclrtValueWrite(NULL, 7, 0, other));
		REFUSES(3, aclrtValueWrite(word, 7, 0, scene.gone));
		REFUSES(4, aclrtValueWrite(word, 7, 1, other));
		REFUSES(6, aclrtValueWrite(scene.page[0], 7, 0, other));
		REFUSES(8, aclrtValueWrite(word, 7, 0, scene.foreign));
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
		REFUSES(1, aclrtCntNotifyCreate(&n, 1));
		REFUSES(3, aclrtCntNotifyCreate(NULL, 0));
	}
	FUNCTION("aclrtCntNotifyGetId") {
		uint32_t id = UINT32_MAX;
		OK(aclrtCntNotifyGetId(n, &id));
		EFFECT(id != UINT32_MAX);
		REFUSES(1, aclrtCntNotifyGetId(GARBAGE, &id));
		REFUSES(2, aclrtCntNotifyGetId(NULL, &id));
		REFUSES(3, aclrtCntNotifyGetId(n, NULL));
	}
	FUNCTION("aclrtCntNotifyWaitWithTimeout") {
		OK(aclrtCntNotifyWaitWithTimeout(n, scene.stream, &wait));
		EFFECT(waits(scene.stream));
		REFUSES(1, aclrtCntNotifyWaitWithTimeout(n, other, NULL));
		REFUSES(2, aclrtCntNotifyWaitWithTimeout(GARBAGE, other, &wait));
		REFUSES(3, aclrtCntNotifyWaitWithTimeout(n, scene.gone, &wait));
		REFUSES(4, aclrtCntNotifyWaitWithTimeout(NULL, other, &wait));
		REFUSES(7, aclrtCntNotifyWaitWithTimeout(n, scene.foreign, &wait));
	}
	FUNCTION("aclrtCntNotifyRecord") {
		OK(aclrtCntNotifyRecord(n, other, &record));
		OK(aclrtSynchronizeStream(scene.stream));
		EFFECT(!waits(scene.stream));
		REFUSES(1, aclrtCntNotifyRecord(n, other, NULL));
		REFUSES(2, aclrtCntNotifyRecord(GARBAGE, other, &record));
		REFUSES(3, aclrtCntNotifyRecord(n, scene.gone, &record));
		REFUSES(4, aclrtCntNotifyRecord(NULL, other, &record));
		REFUSES(7, aclrtCntNotifyRecord(n, scene.foreign, &record));
	}
	FUNCTION("aclrtCntNotifyReset") {
		OK(aclrtCntNotifyReset(n, other));
		OK(aclrtSynchronizeStream(other));
		OK(aclrtCntNotifyWaitWithTimeout(n, scene.stream, &wait)); /* it was 5 */
		EFFECT(waits(scene.stream));
		OK(aclrtCntNotifyRecord(n, other, &record));
		OK(aclrtSynchronizeStream(scene.stream));
		REFUSES(1, aclrtCntNotifyReset(GARBAGE, other));
		REFUSES(2, aclrtCntNotifyReset(n, scene.gone));
		REFUSES(3, aclrtCntNotifyReset(NULL, other));
		REFUSES(5, aclrtCntNotifyReset(n, scene.foreign));
	}
	FUNCTION("aclrtCntNotifyDestroy") {
		OK(aclrtCntNotifyDestroy(n));
		EFFECT(aclrtCntNotifyRecord(n, other, &record) == ACL_ERROR_RT_INVALID_HANDLE);
		REFUSES(1, aclrtCntNotifyDestroy(n));
		REFUSES(2, aclrtCntNotifyDestroy(NULL));
	}
	OK(aclrtDestroyStream(other));
}
