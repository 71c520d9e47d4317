/* Group exception: what the program learns of errors. */
#include <sys/syscall.h>
#include "proof.h"

void functions_exception(void);

static void texts(void)
{
	FUNCTION("aclrtGetLastError") {
		proof_forget();
		IS(ACL_ERROR_RT_INVALID_HANDLE, aclrtSynchronizeStream(GARBAGE));
		EFFECT(aclrtGetLastError(ACL_RT_THREAD_LEVEL) == ACL_ERROR_RT_INVALID_HANDLE);
		EFFECT(aclrtGetLastError(ACL_RT_THREAD_LEVEL) == 0);
		EDGE(aclrtGetLastError((aclrtLastErrLevel)1) == rule_of(proof.function, "level-unknown")->code);
	}
	FUNCTION("aclrtPeekAtLastError") {
		IS(ACL_ERROR_RT_INVALID_HANDLE, aclrtSynchronizeStream(GARBAGE));
		EFFECT(aclrtPeekAtLastError(ACL_RT_THREAD_LEVEL) == ACL_ERROR_RT_INVALID_HANDLE);
		OK(aclrtSynchronizeStream(scene.stream)); /* success does not clear it */
		EFFECT(aclrtPeekAtLastError(ACL_RT_THREAD_LEVEL) == ACL_ERROR_RT_INVALID_HANDLE);
		EDGE(aclrtPeekAtLastError((aclrtLastErrLevel)1) == rule_of(proof.function, "level-unknown")->code);
	}
	FUNCTION("aclGetRecentErrMsg") {
		proof_forget();
		IS(ACL_ERROR_RT_INVALID_HANDLE, aclrtSynchronizeStream(GARBAGE));
		const char *text = aclGetRecentErrMsg();
		EFFECT(text != NULL && strstr(text, "aclrtSynchronizeStream") != NULL);
		EDGE(aclGetRecentErrMsg() == NULL); /* reading clears it */
	}
}

/* What the exception callbacks were given, written by a thread of the library. */
static struct {
	int calls, second;
	uint32_t task, stream, thread, device, code;
	int args, handle;
} seen;

static void on_exception(aclrtExceptionInfo *info)
{
	void *args;
	uint32_t n;
	aclrtFuncHandle func;
	meet();
	seen.calls++;
	seen.task = aclrtGetTaskIdFromExceptionInfo(info);
	seen.stream = aclrtGetStreamIdFromExceptionInfo(info);
	seen.thread = aclrtGetThreadIdFromExceptionInfo(info);
	seen.device = aclrtGetDeviceIdFromExceptionInfo(info);
	seen.code = aclrtGetErrorCodeFromExceptionInfo(info);
	seen.args = aclrtGetArgsFromExceptionInfo(info, &args, &n);
	seen.handle = aclrtGetFuncHandleFromExceptionInfo(info, &func);
	meet();
}

static void on_second(aclrtExceptionInfo *info)
{
	meet();
	seen.second += info != NULL;
	meet();
}

/* Let a task fail: the callbacks have run when the failure is returned. */
static void fail(void)
{
	meet();
	fail_on(scene.stream);
	IS(ACL_ERROR_RT_SYS_DMA, aclrtSynchronizeStream(scene.stream));
	meet();
}

static void callbacks(void)
{
	FUNCTION("aclrtExceptionInfoCallbackRegister") {
		OK(aclrtExceptionInfoCallbackRegister(on_exception));
		OK(aclrtExceptionInfoCallbackRegister(on_exception)); /* counts once */
		fail();
		EFFECT(seen.calls == 1);
	}
	FUNCTION("aclrtSetExceptionInfoCallback") {
		OK(aclrtSetExceptionInfoCallback(on_second));
		fail();
		EFFECT(seen.calls == 2 && seen.second == 1);
		EDGE(aclrtSetExceptionInfoCallback(NULL) == ACL_SUCCESS); /* removes it */
		fail();
		EFFECT(seen.calls == 3 && seen.second == 1);
	}
	FUNCTION("aclrtExceptionInfoCallbackUnregister") {
		OK(aclrtExceptionInfoCallbackUnregister(on_exception));
		fail();
		EFFECT(seen.calls == 3);
	}
}

/* What the callback was given about a copy of this thread on the scene's stream. */
static void exceptions(void)
{
	uint32_t task = 0;
	int32_t stream = -1;
	OK(aclrtExceptionInfoCallbackRegister(on_exception));
	meet();
	fail_on(scene.stream);
	OK(aclrtGetThreadLastTaskId(&task));
	IS(ACL_ERROR_RT_SYS_DMA, aclrtSynchronizeStream(scene.stream));
	meet();
	OK(aclrtExceptionInfoCallbackUnregister(on_exception));
	OK(aclrtStreamGetId(scene.stream, &stream));
	FUNCTION("aclrtGetTaskIdFromExceptionInfo") {
		EFFECT(seen.task == task);
		EDGE(aclrtGetTaskIdFromExceptionInfo(NULL) == UINT32_MAX);
	}
	FUNCTION("aclrtGetStreamIdFromExceptionInfo") {
		EFFECT(seen.stream == (uint32_t)stream);
		EDGE(aclrtGetStreamIdFromExceptionInfo(NULL) == UINT32_MAX);
	}
	FUNCTION("aclrtGetThreadIdFromExceptionInfo") {
		EFFECT(seen.thread == (uint32_t)syscall(SYS_gettid));
		EDGE(aclrtGetThreadIdFromExceptionInfo(NULL) == UINT32_MAX);
	}
	FUNCTION("aclrtGetDeviceIdFromExceptionInfo") {
		EFFECT(seen.device == 0);
		EDGE(aclrtGetDeviceIdFromExceptionInfo(NULL) == UINT32_MAX);
	}
	FUNCTION("aclrtGetErrorCodeFromExceptionInfo") {
		EFFECT(seen.code == ACL_ERROR_RT_SYS_DMA);
		EDGE(aclrtGetErrorCodeFromExceptionInfo(NULL) == UINT32_MAX);
	}
	FUNCTION("aclrtGetArgsFromExceptionInfo") {
		EFFECT(seen.args == rule_of(proof.function, "other-tasks")->code); /* a copy has none */
	}
	FUNCTION("aclrtGetFuncHandleFromExceptionInfo") {
		EFFECT(seen.handle == rule_of(proof.function, "not-a-kernel")->code); /* a copy is no kernel */
	}
}

static void faults(void)
{
	static aclrtMemUceInfo ranges[21];
	static aclrtErrorInfo info;
	size_t n = 99;
	FUNCTION("aclrtGetMemUceInfo") {
		OK(aclrtGetMemUceInfo(0, ranges, 20, &n));
		EFFECT(n == 0);
	}
	FUNCTION("aclrtMemUceRepair") {
		EFFECT(aclrtMemUceRepair(0, ranges, 20) == ACL_SUCCESS);
		ranges[1].reserved[0] = 1;
		REFUSES("reserved-not-0", aclrtMemUceRepair(0, ranges, 2));
	}
	FUNCTION("aclrtGetErrorVerbose") {
		info.errorType = ACL_RT_ERROR_OTHERS;
		info.tryRepair = 1;
		OK(aclrtGetErrorVerbose(0, &info));
		EFFECT(info.errorType == ACL_RT_NO_ERROR && info.tryRepair == 0);
	}
	FUNCTION("aclrtRepairError") {
		info.tryRepair = 1;
		info.errorType = ACL_RT_ERROR_MEMORY;
		EFFECT(aclrtRepairError(0, &info) == ACL_SUCCESS);
		REFUSES("deviceId-not-open", aclrtRepairError(3, &info));
		info.errorType = ACL_RT_ERROR_L2;
		REFUSES("not-repairable", aclrtRepairError(0, &info));
	}
}

static atomic_int stages[2];

static int32_t on_abort(int32_t id, aclrtDeviceTaskAbortStage stage, uint32_t timeout, void *args)
{
	if (id == 0 && timeout == 60000 && args == stages)
		atomic_fetch_add(&stages[stage == ACL_RT_DEVICE_TASK_ABORT_POST], 1);
	return 0;
}

static int32_t on_abort_refuse(int32_t id, aclrtDeviceTaskAbortStage stage, uint32_t timeout, void *args)
{
	(void)id, (void)stage, (void)timeout, (void)args;
	return 77;
}

static void aborts(void)
{
	aclrtEvent event;
	FUNCTION("aclrtSetDeviceTaskAbortCallback") {
		OK(aclrtSetDeviceTaskAbortCallback("test", on_abort, stages));
		OK(aclrtDeviceTaskAbort(0, 60000));
		EFFECT(stages[0] == 1 && stages[1] == 1);
		REFUSES("registered", aclrtSetDeviceTaskAbortCallback("test", on_abort, NULL));
		OK(aclrtSetDeviceTaskAbortCallback("test", NULL, NULL));
	}
	FUNCTION("aclrtDeviceTaskAbort") {
		fill(scene.dev[0], OLD);
		OK(aclrtCreateEventWithFlag(&event, ACL_EVENT_SYNC));
		OK(aclrtStreamWaitEvent(scene.stream, event)); /* nobody records it */
		OK(aclrtMemsetAsync(scene.dev[0], ROOM, 1, ROOM, scene.stream));
		OK(aclrtDeviceTaskAbort(0, 0));
		OK(aclrtSynchronizeStream(scene.stream));
		EFFECT(holds(scene.dev[0], ROOM, OLD));
		OK(aclrtDestroyEvent(event));
		OK(aclrtSetDeviceTaskAbortCallback("test", on_abort_refuse, NULL));
		like(proof.function, "callback-fails");
		EXPECT(aclrtDeviceTaskAbort(0, 0));
		OK(aclrtSetDeviceTaskAbortCallback("test", NULL, NULL));
	}
}

void functions_exception(void)
{
	texts();
	callbacks();
	exceptions();
	faults();
	aborts();
}
