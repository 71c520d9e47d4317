/* Groups stream and execution, on an IPV350: streams made from a configuration, and threads that run host functions. */
#include <pthread.h>
#include "proof.h"

void functions_configured(void);

/* A configuration is a struct of the header: what is set can be read there. */
static void configurations(void)
{
	aclrtStreamConfigHandle *c = NULL;
	aclrtStream s, plain;
	void *work = scene.dev[0];
	size_t size = 4096, flag = ACL_STREAM_FAST_SYNC;
	uint32_t priority = 5, got = 99;
	FUNCTION("aclrtCreateStreamConfigHandle") {
		c = aclrtCreateStreamConfigHandle();
		EFFECT(c != NULL && c->workptr == NULL && c->workSize == 0 && c->flag == 0 && c->priority == 0);
		NO_CONTEXT
			EDGE(aclrtCreateStreamConfigHandle() != NULL); /* no context is needed */
	}
	FUNCTION("aclrtSetStreamConfigOpt") {
		OK(aclrtSetStreamConfigOpt(c, ACL_RT_STREAM_WORK_ADDR_PTR, &work, sizeof work));
		OK(aclrtSetStreamConfigOpt(c, ACL_RT_STREAM_WORK_SIZE, &size, sizeof size));
		OK(aclrtSetStreamConfigOpt(c, ACL_RT_STREAM_FLAG, &flag, sizeof flag));
		OK(aclrtSetStreamConfigOpt(c, ACL_RT_STREAM_PRIORITY, &priority, sizeof priority));
		EFFECT(c->workptr == work && c->workSize == size && c->flag == flag && c->priority == priority);
		uint32_t late = 8;
		REFUSES(6, aclrtSetStreamConfigOpt(c, ACL_RT_STREAM_PRIORITY, &late, sizeof late));
		EFFECT(c->priority == priority);
	}
	FUNCTION("aclrtCreateStreamV2") {
		OK(aclrtCreateStreamV2(&s, c));
		OK(aclrtCreateStreamV2(&plain, NULL));
		OK(aclrtStreamGetPriority(s, &got));
		EFFECT(got == priority);
		OK(aclrtStreamGetFlags(s, &got));
		EFFECT(got == ACL_STREAM_FAST_SYNC);
		OK(aclrtStreamGetFlags(plain, &got));
		EFFECT(got == 0);
		aclrtStreamConfigHandle own = {NULL, 0, ACL_STREAM_HUGE, 0};
		REFUSES(3, aclrtCreateStreamV2(&s, &own));
	}
	FUNCTION("aclrtDestroyStreamConfigHandle") {
		OK(aclrtDestroyStreamConfigHandle(c));
		EFFECT(aclrtSynchronizeStream(s) == ACL_SUCCESS); /* the stream stays */
		REFUSES(3, aclrtDestroyStreamConfigHandle(c));
	}
	OK(aclrtDestroyStream(plain));
	OK(aclrtDestroyStream(s));
}

static struct {
	pthread_t thread;
	atomic_int count, stop;
	int order[8];
} served;

static void note(void *number)
{
	CHECK(pthread_equal(served.thread, pthread_self()));
	served.order[served.count] = *(int *)number;
	meet();
	served.count++;
}

/* A thread of the program that runs what comes until it is to stop. */
static void *serve(void *arg)
{
	(void)arg;
	OK(aclrtSetDevice(0));
	while (!served.stop) {
		aclError code = aclrtProcessHostFunc(5);
		CHECK(code == ACL_SUCCESS || code == ACL_ERROR_RT_REPORT_TIMEOUT || code == ACL_ERROR_RT_THREAD_SUBSCRIBE);
	}
	return NULL;
}

static void served_functions(void)
{
	static int numbers[] = {3, 1, 2};
	aclrtStream s, other;
	OK(aclrtCreateStreamV2(&s, NULL));
	OK(aclrtCreateStreamV2(&other, NULL));
	CHECK(pthread_create(&served.thread, NULL, serve, NULL) == 0);
	uint64_t id = (uint64_t)served.thread;
	FUNCTION("aclrtSubscribeHostFunc") {
		OK(aclrtSubscribeHostFunc(id, s));
		EFFECT(aclrtSubscribeReport(id, s) == ACL_ERROR_RT_STREAM_SUBSCRIBE);
		REFUSES(4, aclrtSubscribeHostFunc(id, s));
	}
	FUNCTION("aclrtProcessHostFunc") {
		fill(scene.dev[0], OLD);
		meet();
		for (int i = 0; i < 3; i++)
			OK(aclrtLaunchHostFunc(s, note, &numbers[i]));
		OK(aclrtMemsetAsync(scene.dev[0], ROOM, 1, ROOM, s));
		OK(aclrtSynchronizeStream(s));
		EFFECT(served.count == 3 && served.order[0] == 3 && served.order[1] == 1 && served.order[2] == 2);
		EFFECT(!holds(scene.dev[0], 64, OLD));
		REFUSES(3, aclrtProcessHostFunc(-1)); /* this thread has subscribed nothing */
	}
	FUNCTION("aclrtUnSubscribeHostFunc") {
		REFUSES(5, aclrtUnSubscribeHostFunc(id + 1, s));
		OK(aclrtUnSubscribeHostFunc(id, s));
		EFFECT(aclrtUnSubscribeHostFunc(id, other) == ACL_ERROR_RT_STREAM_SUBSCRIBE);
	}
	served.stop = 1;
	CHECK(pthread_join(served.thread, NULL) == 0);
	OK(aclrtDestroyStream(other));
	OK(aclrtDestroyStream(s));
}

void functions_configured(void)
{
	configurations();
	served_functions();
}
