/* Group stream. */
#include "proof.h"

void functions_stream(void);

static aclrtStreamStatus status_of(aclrtStream s)
{
	aclrtStreamStatus status = ACL_STREAM_STATUS_RESERVED;
	OK(aclrtStreamQuery(s, &status));
	return status;
}

/* A stream that waits for an event nobody records, with a fill of dev[0] after it. */
static void stick(aclrtStream s, aclrtEvent *event)
{
	fill(scene.dev[0], OLD);
	OK(aclrtCreateEventWithFlag(event, ACL_EVENT_SYNC));
	OK(aclrtStreamWaitEvent(s, *event));
	OK(aclrtMemsetAsync(scene.dev[0], ROOM, 1, ROOM, s));
	CHECK(status_of(s) == ACL_STREAM_STATUS_NOT_READY);
}

static bool was_dropped(void) { return holds(scene.dev[0], ROOM, OLD); }

/* Whether a stream takes work and does it. */
static bool works(aclrtStream s)
{
	fill(scene.dev[1], NEW);
	OK(aclrtMemcpyAsync(scene.dev[0], ROOM, scene.dev[1], ROOM, ACL_MEMCPY_DEVICE_TO_DEVICE, s));
	OK(aclrtSynchronizeStream(s));
	return holds(scene.dev[0], ROOM, NEW);
}

static void living(void)
{
	aclrtStream s;
	aclrtEvent event;
	uint32_t flags = 9, priority = 9;
	FUNCTION("aclrtCreateStream") {
		OK(aclrtCreateStream(&s));
		EFFECT(works(s));
		NO_CONTEXT
			REFUSES("no-context", aclrtCreateStream(&s));
	}
	FUNCTION("aclrtDestroyStream") {
		OK(aclrtMemsetAsync(scene.dev[0], ROOM, 1, ROOM, s));
		OK(aclrtDestroyStream(s));
		EFFECT(aclrtSynchronizeStream(s) == ACL_ERROR_RT_INVALID_HANDLE && !was_dropped());
	}
	FUNCTION("aclrtDestroyStreamForce") {
		OK(aclrtCreateStream(&s));
		stick(s, &event);
		OK(aclrtDestroyStreamForce(s));
		EFFECT(was_dropped());
		OK(aclrtDestroyEvent(event));
	}
	FUNCTION("aclrtCreateStreamWithConfig") {
		OK(aclrtCreateStreamWithConfig(&s, 3, ACL_STREAM_FAST_LAUNCH | ACL_STREAM_FAST_SYNC));
		EFFECT(works(s));
		REFUSES("device-only-with-others", aclrtCreateStreamWithConfig(&s, 0, ACL_STREAM_DEVICE_USE_ONLY | ACL_STREAM_FAST_SYNC));
	}
	FUNCTION("aclrtStreamGetPriority") {
		OK(aclrtStreamGetPriority(s, &priority));
		EFFECT(priority == 3);
	}
	FUNCTION("aclrtStreamGetFlags") {
		OK(aclrtStreamGetFlags(s, &flags));
		EFFECT(flags == (ACL_STREAM_FAST_LAUNCH | ACL_STREAM_FAST_SYNC));
	}
	FUNCTION("aclrtStreamGetId") {
		int32_t a = -1, b = -1;
		OK(aclrtStreamGetId(s, &a));
		OK(aclrtStreamGetId(scene.stream, &b));
		EFFECT(a >= 0 && b >= 0 && a != b);
		NO_CONTEXT
			REFUSES("stream-null-and-no-context", aclrtStreamGetId(NULL, &a));
	}
	FUNCTION("aclrtGetStreamAvailableNum") {
		uint32_t before = 0, after = 0;
		OK(aclrtGetStreamAvailableNum(&before));
		OK(aclrtDestroyStream(s));
		OK(aclrtGetStreamAvailableNum(&after));
		EFFECT(after == before + 1);
	}
}

static void waiting(void)
{
	struct gate gate;
	FUNCTION("aclrtSynchronizeStream") {
		EFFECT(works(scene.stream));
		fail_on(scene.stream);
		like(proof.function, "task-failed");
		EXPECT(aclrtSynchronizeStream(scene.stream));
		OK(aclrtSynchronizeStream(scene.stream)); /* it is said once */
		NO_CONTEXT
			REFUSES("no-context", aclrtSynchronizeStream(scene.stream));
	}
	FUNCTION("aclrtSynchronizeStreamWithTimeout") {
		block(&gate, scene.stream);
		REFUSES("time-up", aclrtSynchronizeStreamWithTimeout(scene.stream, 1));
		gate_open(&gate);
		EFFECT(aclrtSynchronizeStreamWithTimeout(scene.stream, -1) == ACL_SUCCESS);
		gate_drop(&gate);
	}
	FUNCTION("aclrtStreamQuery") {
		block(&gate, scene.stream);
		EFFECT(status_of(scene.stream) == ACL_STREAM_STATUS_NOT_READY);
		OK(unblock(&gate, scene.stream));
		EFFECT(status_of(scene.stream) == ACL_STREAM_STATUS_COMPLETE);
	}
}

static void stopping(void)
{
	aclrtEvent event;
	aclrtStream s;
	struct gate gate;
	FUNCTION("aclrtStreamAbort") {
		stick(scene.stream, &event);
		OK(aclrtStreamAbort(scene.stream));
		EFFECT(status_of(scene.stream) == ACL_STREAM_STATUS_COMPLETE && was_dropped() && works(scene.stream));
		OK(aclrtDestroyEvent(event));
	}
	FUNCTION("aclrtStreamStop") {
		fill(scene.dev[0], OLD);
		block(&gate, scene.stream);
		gate_reached(&gate); /* the running task ends, what is after it does not begin */
		OK(aclrtMemsetAsync(scene.dev[0], ROOM, 1, ROOM, scene.stream));
		OK(aclrtStreamStop(scene.stream));
		OK(unblock(&gate, scene.stream));
		EFFECT(was_dropped() && works(scene.stream));
	}
	FUNCTION("aclrtPersistentTaskClean") { /* streams of models only, and there are none yet */
		OK(aclrtCreateStreamWithConfig(&s, 0, ACL_STREAM_PERSISTENT));
		EFFECT(aclrtPersistentTaskClean(s) == ACL_ERROR_RT_INTERNAL_ERROR);
		OK(aclrtDestroyStream(s));
		REFUSES("not-persistent", aclrtPersistentTaskClean(scene.stream));
	}
	FUNCTION("aclrtSetStreamFailureMode") { /* it stops the whole context, so one of its own */
		aclrtContext c;
		OK(aclrtCreateContext(&c, 0));
		OK(aclrtCreateStream(&s));
		OK(aclrtSetStreamFailureMode(s, ACL_STOP_ON_FAILURE));
		REFUSES("stops-already", aclrtSetStreamFailureMode(s, ACL_CONTINUE_ON_FAILURE));
		fail_on(s);
		IS(ACL_ERROR_RT_SYS_DMA, aclrtSynchronizeStream(s));
		EFFECT(aclrtMemsetAsync(scene.dev[0], ROOM, 1, ROOM, s) == ACL_ERROR_RT_SYS_DMA);
		OK(aclrtDestroyContext(c));
		OK(aclrtSetCurrentContext(scene.home));
	}
}

static atomic_int created, destroyed;

static void on_state(aclrtStream s, aclrtStreamState state, void *args)
{
	if (s != NULL && args == &created)
		atomic_fetch_add(state == ACL_RT_STREAM_STATE_CREATE_POST ? &created : &destroyed, 1);
}

static void describing(void)
{
	uint32_t flag = 9;
	aclrtStreamAttrValue value;
	aclrtStream s;
	FUNCTION("aclrtSetStreamOverflowSwitch") {
		OK(aclrtSetStreamOverflowSwitch(scene.stream, 1));
		OK(aclrtGetStreamOverflowSwitch(scene.stream, &flag));
		EFFECT(flag == 1);
	}
	FUNCTION("aclrtGetStreamOverflowSwitch") {
		OK(aclrtSetStreamOverflowSwitch(scene.stream, 0));
		OK(aclrtGetStreamOverflowSwitch(scene.stream, &flag));
		EFFECT(flag == 0);
	}
	FUNCTION("aclrtSetStreamAttribute") {
		memset(&value, 0, sizeof value);
		value.userCustomTag = 77;
		OK(aclrtSetStreamAttribute(scene.stream, ACL_STREAM_ATTR_USER_CUSTOM_TAG, &value));
		value.userCustomTag = 0;
		OK(aclrtGetStreamAttribute(scene.stream, ACL_STREAM_ATTR_USER_CUSTOM_TAG, &value));
		EFFECT(value.userCustomTag == 77);
		REFUSES("stmAttrType-outside-1-to-5", aclrtSetStreamAttribute(scene.stream, (aclrtStreamAttr)9, &value));
	}
	FUNCTION("aclrtGetStreamAttribute") {
		memset(&value, 9, sizeof value);
		OK(aclrtGetStreamAttribute(scene.stream, ACL_STREAM_ATTR_FAILURE_MODE, &value));
		EFFECT(value.failureMode == ACL_CONTINUE_ON_FAILURE);
		REFUSES("stream-null-and-stmAttrType-5", aclrtGetStreamAttribute(NULL, ACL_STREAM_ATTR_PRIORITY, &value));
	}
	FUNCTION("aclrtRegStreamStateCallback") {
		OK(aclrtRegStreamStateCallback("test", on_state, &created));
		OK(aclrtCreateStream(&s));
		EFFECT(created == 1 && destroyed == 0);
		OK(aclrtDestroyStream(s));
		EFFECT(created == 1 && destroyed == 1);
		OK(aclrtRegStreamStateCallback("test", NULL, NULL));
		OK(aclrtCreateStream(&s));
		OK(aclrtDestroyStream(s));
		EFFECT(created == 1 && destroyed == 1);
	}
}

/* What frameworks ask before every operator, although nothing can be captured yet. */
static void captures(void)
{
	FUNCTION("aclmdlRICaptureGetInfo") {
		aclmdlRICaptureStatus status = ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE;
		aclmdlRI model = GARBAGE;
		OK(aclmdlRICaptureGetInfo(scene.stream, &status, &model));
		EFFECT(status == ACL_MODEL_RI_CAPTURE_STATUS_NONE && model == NULL);
		REFUSES("nothing-asked", aclmdlRICaptureGetInfo(GARBAGE, NULL, NULL));
	}
	FUNCTION("aclmdlRICaptureThreadExchangeMode") {
		aclmdlRICaptureMode mode = ACL_MODEL_RI_CAPTURE_MODE_RELAXED;
		OK(aclmdlRICaptureThreadExchangeMode(&mode));
		EFFECT(mode == ACL_MODEL_RI_CAPTURE_MODE_GLOBAL);
		OK(aclmdlRICaptureThreadExchangeMode(&mode));
		EFFECT(mode == ACL_MODEL_RI_CAPTURE_MODE_RELAXED);
		mode = (aclmdlRICaptureMode)3;
		REFUSES("mode-outside-0-to-2", aclmdlRICaptureThreadExchangeMode(&mode));
		mode = ACL_MODEL_RI_CAPTURE_MODE_GLOBAL;
		NO_CONTEXT
			REFUSES("no-context", aclmdlRICaptureThreadExchangeMode(&mode));
	}
}

void functions_stream(void)
{
	captures();
	living();
	waiting();
	stopping();
	describing();
}
