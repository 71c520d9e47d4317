/* Group execution: callbacks on the program's own thread, host functions, time limits of operators. */
#include <pthread.h>
#include "proof.h"

void functions_execution(void);

/* What the callbacks saw; read after a synchronisation or on the thread that runs them. */
static struct {
	int count, order[8];
	pthread_t thread[8];
} ran;

static void note(void *data)
{
	meet();
	ran.order[ran.count] = *(int *)data;
	ran.thread[ran.count++] = pthread_self();
	meet();
}

static int numbers[] = {0, 1, 2, 3};

/* Callbacks of a stream run on the thread that subscribed, inside aclrtProcessReport and nowhere else. */
static void reports(void)
{
	aclrtStream s, unserved;
	uint64_t me = (uint64_t)pthread_self();
	OK(aclrtCreateStream(&s));
	OK(aclrtCreateStream(&unserved));
	FUNCTION("aclrtSubscribeReport") {
		OK(aclrtSubscribeReport(me, s));
		EFFECT(aclrtLaunchHostFunc(s, note, numbers) == ACL_ERROR_RT_STREAM_SUBSCRIBE);
		REFUSES("subscribed", aclrtSubscribeReport(me, s));
	}
	FUNCTION("aclrtLaunchCallback") {
		meet();
		OK(aclrtLaunchCallback(note, &numbers[1], ACL_CALLBACK_NO_BLOCK, s));
		OK(aclrtLaunchCallback(note, &numbers[2], ACL_CALLBACK_BLOCK, s));
		EFFECT(ran.count == 0); /* not in this call */
		EFFECT(aclrtSynchronizeStreamWithTimeout(s, 1) == ACL_ERROR_RT_STREAM_SYNC_TIMEOUT); /* the second holds the stream */
		REFUSES("not-subscribed", aclrtLaunchCallback(note, NULL, ACL_CALLBACK_BLOCK, unserved));
		REFUSES("host-functions", aclrtLaunchCallback(note, NULL, ACL_CALLBACK_BLOCK, scene.stream)); /* which runs host functions */
	}
	FUNCTION("aclrtProcessReport") {
		while (ran.count < 2)
			OK(aclrtProcessReport(-1));
		for (int i = 0; i < 2; i++)
			EFFECT(ran.order[i] == i + 1 && pthread_equal(ran.thread[i], pthread_self()));
		OK(aclrtSynchronizeStream(s));
		proof_forget();
		IS(ACL_ERROR_RT_REPORT_TIMEOUT, aclrtProcessReport(1)); /* ordinary: no message */
		EFFECT(aclGetRecentErrMsg() == NULL && aclrtPeekAtLastError(ACL_RT_THREAD_LEVEL) == ACL_ERROR_RT_REPORT_TIMEOUT);
	}
	FUNCTION("aclrtUnSubscribeReport") {
		REFUSES("thread-not-subscribed", aclrtUnSubscribeReport(me + 1, s));
		OK(aclrtUnSubscribeReport(me, s));
		EFFECT(aclrtLaunchCallback(note, NULL, ACL_CALLBACK_BLOCK, s) == ACL_ERROR_RT_STREAM_NO_CB_REG);
		EFFECT(aclrtProcessReport(1) == ACL_ERROR_RT_THREAD_SUBSCRIBE);
		REFUSES("stream-not-subscribed", aclrtUnSubscribeReport(me, s));
	}
	OK(aclrtDestroyStream(unserved));
	OK(aclrtDestroyStream(s));
}

/* What a host function copies in its own thread, and the context that it finds there. */
static struct {
	aclError code;
	aclrtContext context;
	unsigned char bytes[64];
} inside;

static void look(void *device)
{
	inside.code = aclrtMemcpy(inside.bytes, sizeof inside.bytes, device, sizeof inside.bytes, ACL_MEMCPY_DEVICE_TO_HOST);
	aclrtGetCurrentContext(&inside.context);
	meet();
}

static void functions_of_the_host(void)
{
	FUNCTION("aclrtLaunchHostFunc") {
		memset(&ran, 0, sizeof ran);
		fill(scene.dev[0], OLD);
		for (int i = 0; i < 4; i++) {
			meet();
			OK(aclrtLaunchHostFunc(scene.stream, note, &numbers[i]));
		}
		OK(aclrtMemsetAsync(scene.dev[0], ROOM, 1, ROOM, scene.stream));
		OK(aclrtSynchronizeStream(scene.stream));
		meet();
		EFFECT(ran.count == 4 && !holds(scene.dev[0], 64, OLD));
		for (int i = 0; i < 4; i++)
			EFFECT(ran.order[i] == i && !pthread_equal(ran.thread[i], pthread_self()));
		aclrtContext current, other;
		aclrtStream elsewhere;
		OK(aclrtGetCurrentContext(&current));
		OK(aclrtCreateContext(&other, 0)); /* it is current now */
		OK(aclrtCreateStream(&elsewhere));
		for (int i = 0; i < 4; i++) {
			aclrtContext where = i % 2 ? other : current;
			OK(aclrtSetCurrentContext(where));
			memset(&inside, 0, sizeof inside);
			meet();
			OK(aclrtLaunchHostFunc(i % 2 ? elsewhere : scene.stream, look, scene.dev[0]));
			OK(aclrtSynchronizeStream(i % 2 ? elsewhere : scene.stream));
			meet();
			EFFECT(inside.code == ACL_SUCCESS && inside.context == where && inside.bytes[63] == 1);
		}
		OK(aclrtDestroyContext(other));
		OK(aclrtSetCurrentContext(current));
	}
	FUNCTION("aclrtGetThreadLastTaskId") {
		uint32_t first = 0, second = 0;
		OK(aclrtMemsetAsync(scene.dev[0], ROOM, 1, ROOM, scene.stream));
		OK(aclrtGetThreadLastTaskId(&first));
		OK(aclrtMemsetAsync(scene.dev[0], ROOM, 1, ROOM, scene.stream));
		OK(aclrtGetThreadLastTaskId(&second));
		EFFECT(second == first + 1);
		OK(aclrtSynchronizeStream(scene.stream));
	}
}

static uint32_t limit(void)
{
	uint32_t ms = 0;
	OK(aclrtGetOpExecuteTimeout(&ms));
	return ms;
}

/* Limits are multiples of a step; nothing is refused but missing outputs. */
static void limits(void)
{
	uint64_t step = 0, actual = 0;
	FUNCTION("aclrtGetOpExecuteTimeout") {
		EFFECT(limit() == 1091000);
	}
	FUNCTION("aclrtGetOpTimeOutInterval") {
		OK(aclrtGetOpTimeOutInterval(&step));
		EFFECT(step == 4295);
		NO_CONTEXT
			REFUSES("no-context", aclrtGetOpTimeOutInterval(&step));
	}
	FUNCTION("aclrtSetOpExecuteTimeOutV2") {
		OK(aclrtSetOpExecuteTimeOutV2(step + 1, &actual));
		EFFECT(actual == 2 * step && limit() == 9);
	}
	FUNCTION("aclrtSetOpExecuteTimeOutWithMs") {
		OK(aclrtSetOpExecuteTimeOutWithMs(20));
		EFFECT(limit() >= 20 && limit() <= 25);
		EDGE(aclrtSetOpExecuteTimeOutWithMs(0) == ACL_SUCCESS && limit() == UINT32_MAX); /* never */
	}
	FUNCTION("aclrtSetOpExecuteTimeOut") {
		OK(aclrtSetOpExecuteTimeOut(1));
		EFFECT(limit() >= 1000 && limit() <= 1005);
		NO_CONTEXT
			EDGE(aclrtSetOpExecuteTimeOut(0) == ACL_SUCCESS && limit() == UINT32_MAX);
	}
}

void functions_execution(void)
{
	reports();
	functions_of_the_host();
	limits();
}
