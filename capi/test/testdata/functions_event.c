/* Group event. */
#include "proof.h"

void functions_event(void);
void functions_older(void);

static int recorded(aclrtEvent e)
{
	aclrtEventRecordedStatus status = (aclrtEventRecordedStatus)9;
	OK(aclrtQueryEventStatus(e, &status));
	return (int)status;
}

static void living(void)
{
	aclrtEvent e;
	uint32_t before, after;
	FUNCTION("aclrtCreateEvent") {
		OK(aclrtCreateEvent(&e));
		EFFECT(recorded(e) == ACL_EVENT_RECORDED_STATUS_NOT_READY);
		OK(aclrtRecordEvent(e, scene.stream));
		OK(aclrtSynchronizeEvent(e));
		EFFECT(recorded(e) == ACL_EVENT_RECORDED_STATUS_COMPLETE);
	}
	FUNCTION("aclrtDestroyEvent") {
		OK(aclrtDestroyEvent(e));
		EFFECT(aclrtRecordEvent(e, scene.stream) == ACL_ERROR_RT_INVALID_HANDLE);
	}
	FUNCTION("aclrtCreateEventExWithFlag") {
		OK(aclrtCreateEventExWithFlag(&e, ACL_EVENT_SYNC));
		EFFECT(recorded(e) == ACL_EVENT_RECORDED_STATUS_COMPLETE); /* one that was never recorded counts as done */
		OK(aclrtDestroyEvent(e));
	}
	FUNCTION("aclrtCreateEventWithFlag") {
		OK(aclrtSynchronizeStream(scene.stream)); /* the record above keeps a number until its task is over */
		OK(aclrtGetEventAvailNum(&before));
		OK(aclrtCreateEventWithFlag(&e, ACL_EVENT_SYNC));
		EFFECT(recorded(e) == ACL_EVENT_RECORDED_STATUS_NOT_READY);
	}
	FUNCTION("aclrtGetEventAvailNum") {
		OK(aclrtGetEventAvailNum(&after));
		EFFECT(after == before - 1);
	}
	FUNCTION("aclrtGetEventId") {
		uint32_t id = UINT32_MAX;
		aclrtEvent fresh;
		OK(aclrtGetEventId(e, &id));
		EFFECT(id != UINT32_MAX);
		OK(aclrtCreateEvent(&fresh));
		REFUSES("no-id", aclrtGetEventId(fresh, &id));
		OK(aclrtDestroyEvent(fresh));
		OK(aclrtDestroyEvent(e));
	}
}

/* What the host learns of an event whose record waits behind a gate. */
static void asking(void)
{
	aclrtEvent e;
	aclrtEventStatus old = ACL_EVENT_STATUS_RESERVED;
	struct gate gate;
	OK(aclrtCreateEvent(&e));
	block(&gate, scene.stream);
	FUNCTION("aclrtRecordEvent") {
		OK(aclrtRecordEvent(e, scene.stream));
		EFFECT(recorded(e) == ACL_EVENT_RECORDED_STATUS_NOT_READY);
	}
	FUNCTION("aclrtQueryEvent") {
		OK(aclrtQueryEvent(e, &old));
		EFFECT(old == ACL_EVENT_STATUS_NOT_READY);
	}
	FUNCTION("aclrtSynchronizeEventWithTimeout") {
		REFUSES("time-up", aclrtSynchronizeEventWithTimeout(e, 1));
		gate_open(&gate);
		OK(aclrtSynchronizeEventWithTimeout(e, -1));
		EFFECT(recorded(e) == ACL_EVENT_RECORDED_STATUS_COMPLETE);
	}
	OK(unblock(&gate, scene.stream));
	FUNCTION("aclrtQueryEventStatus") {
		EFFECT(recorded(e) == ACL_EVENT_RECORDED_STATUS_COMPLETE);
	}
	FUNCTION("aclrtSynchronizeEvent") {
		OK(aclrtRecordEvent(e, scene.stream));
		OK(aclrtSynchronizeEvent(e));
		EFFECT(recorded(e) == ACL_EVENT_RECORDED_STATUS_COMPLETE);
	}
	FUNCTION("aclrtResetEvent") {
		aclrtEvent sync, timed;
		OK(aclrtCreateEventWithFlag(&sync, ACL_EVENT_SYNC));
		OK(aclrtRecordEvent(sync, scene.stream));
		OK(aclrtSynchronizeStream(scene.stream));
		CHECK(recorded(sync) == ACL_EVENT_RECORDED_STATUS_COMPLETE);
		OK(aclrtResetEvent(sync, scene.stream));
		OK(aclrtSynchronizeStream(scene.stream));
		EFFECT(recorded(sync) == ACL_EVENT_RECORDED_STATUS_NOT_READY);
		OK(aclrtCreateEventWithFlag(&timed, ACL_EVENT_TIME_LINE));
		OK(aclrtDestroyEvent(timed));
		OK(aclrtDestroyEvent(sync));
	}
	OK(aclrtDestroyEvent(e));
}

static void timing(void)
{
	aclrtEvent first, second, never;
	float ms = -1;
	uint64_t a = 0, b = 0;
	OK(aclrtCreateEvent(&first));
	OK(aclrtCreateEvent(&second));
	OK(aclrtCreateEvent(&never));
	OK(aclrtRecordEvent(first, scene.stream));
	OK(aclrtMemsetAsync(scene.dev[0], ROOM, 1, ROOM, scene.stream));
	OK(aclrtRecordEvent(second, scene.stream));
	OK(aclrtSynchronizeStream(scene.stream));
	FUNCTION("aclrtEventElapsedTime") {
		OK(aclrtEventElapsedTime(&ms, first, second));
		EFFECT(ms >= 0);
		OK(aclrtEventElapsedTime(&ms, second, first));
		EFFECT(ms <= 0);
	}
	FUNCTION("aclrtEventGetTimestamp") {
		OK(aclrtEventGetTimestamp(first, &a));
		OK(aclrtEventGetTimestamp(second, &b));
		EFFECT(a > 0 && b >= a);
	}
	OK(aclrtDestroyEvent(never));
	OK(aclrtDestroyEvent(second));
	OK(aclrtDestroyEvent(first));
}

/* Whether a stream has work that is not done. */
static bool waits(aclrtStream s)
{
	aclrtStreamStatus status = ACL_STREAM_STATUS_RESERVED;
	OK(aclrtStreamQuery(s, &status));
	return status == ACL_STREAM_STATUS_NOT_READY;
}

/* Streams that wait for a record that comes later. */
static void meeting(void)
{
	aclrtEvent e, plain;
	aclrtStream s;
	aclrtEventWaitStatus status = ACL_EVENT_WAIT_STATUS_RESERVED;
	OK(aclrtCreateEventWithFlag(&e, ACL_EVENT_SYNC));
	OK(aclrtCreateEvent(&plain));
	OK(aclrtCreateStream(&s));
	FUNCTION("aclrtStreamWaitEvent") {
		OK(aclrtStreamWaitEvent(s, e));
		EFFECT(waits(s));
		REFUSES("never-recorded", aclrtStreamWaitEvent(s, plain));
	}
	FUNCTION("aclrtQueryEventWaitStatus") {
		OK(aclrtQueryEventWaitStatus(e, &status));
		EFFECT(status == ACL_EVENT_WAIT_STATUS_NOT_READY);
		OK(aclrtRecordEvent(e, scene.stream));
		OK(aclrtSynchronizeStream(s));
		OK(aclrtQueryEventWaitStatus(e, &status));
		EFFECT(status == ACL_EVENT_WAIT_STATUS_COMPLETE);
	}
	FUNCTION("aclrtStreamWaitEventWithTimeout") {
		OK(aclrtResetEvent(e, s));
		OK(aclrtSynchronizeStream(s)); /* nothing else orders the reset before the record */
		OK(aclrtStreamWaitEventWithTimeout(s, e, 600));
		EFFECT(waits(s));
	}
	FUNCTION("aclrtRecordEventWithFlag") {
		OK(aclrtRecordEventWithFlag(e, scene.stream, ACL_EVENT_RECORD_DEFAULT));
		OK(aclrtSynchronizeStream(s));
		EFFECT(!waits(s));
		REFUSES("external-of-other-event", aclrtRecordEventWithFlag(e, scene.stream, ACL_EVENT_RECORD_EXTERNAL));
	}
	FUNCTION("aclrtStreamWaitEventWithFlag") {
		OK(aclrtResetEvent(e, s));
		OK(aclrtSynchronizeStream(s));
		OK(aclrtStreamWaitEventWithFlag(s, e, 600, ACL_EVENT_WAIT_DEFAULT));
		EFFECT(waits(s));
		OK(aclrtRecordEvent(e, scene.stream));
		OK(aclrtSynchronizeStream(s));
	}
	FUNCTION("aclrtSetOpWaitTimeout") { /* this product refuses nothing, see functions_older */
		OK(aclrtSetOpWaitTimeout(1));
		OK(aclrtResetEvent(e, s));
		OK(aclrtStreamWaitEvent(s, e)); /* nobody comes */
		EFFECT(aclrtSynchronizeStream(s) == ACL_ERROR_RT_TASK_TIMEOUT);
		OK(aclrtSetOpWaitTimeout(0));
		NO_CONTEXT
			EDGE(aclrtSetOpWaitTimeout(0) == ACL_SUCCESS);
	}
	OK(aclrtDestroyStream(s));
	OK(aclrtDestroyEvent(plain));
	OK(aclrtDestroyEvent(e));
}

/* What only an older product refuses: the 310P. */
void functions_older(void)
{
	RULE("aclrtSetOpWaitTimeout", "old-firmware")
		EXPECT(aclrtSetOpWaitTimeout(1));
	RULE("aclrtSetOpWaitTimeout", "on-310P-no-context")
		NO_CONTEXT
			EXPECT(aclrtSetOpWaitTimeout(1));
}

void functions_event(void)
{
	living();
	asking();
	timing();
	meeting();
}
