/* Groups model-ri: streams are captured into models, which run again. */
#include "proof.h"

void functions_models(void);

static int ended;
static void count_end(void *by) { ended += *(int *)by; }

static aclmdlRI model_of(aclrtStream s)
{
	aclmdlRI m = NULL;
	OK(aclmdlRICaptureEnd(s, &m));
	return m;
}

static uint64_t word_of(const void *p)
{
	uint64_t word = 0;
	OK(aclrtMemcpy(&word, sizeof word, p, sizeof word, ACL_MEMCPY_DEVICE_TO_HOST));
	return word;
}

/* One value write, captured, and what can be done with its model. */
static void captures(aclrtStream s, void *word)
{
	aclmdlRI m = NULL;
	FUNCTION("aclmdlRICaptureBegin") {
		OK(aclmdlRICaptureBegin(s, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
		aclmdlRICaptureStatus status = ACL_MODEL_RI_CAPTURE_STATUS_NONE;
		OK(aclmdlRICaptureGetInfo(s, &status, NULL));
		EFFECT(status == ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE);
		REFUSES("stream-captured", aclmdlRICaptureBegin(s, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
	}
	OK(aclrtValueWrite(word, 5, 0, s));
	FUNCTION("aclmdlRICaptureEnd") {
		OK(aclmdlRICaptureEnd(s, &m));
		EFFECT(m != NULL && word_of(word) == 0);
		REFUSES("stream-not-captured", aclmdlRICaptureEnd(s, &m));
	}
	FUNCTION("aclmdlRIExecuteAsync") {
		OK(aclmdlRIExecuteAsync(m, s));
		OK(aclrtSynchronizeStream(s));
		EFFECT(word_of(word) == 5);
		REFUSES("modelRI-null", aclmdlRIExecuteAsync(NULL, s));
	}
	FUNCTION("aclmdlRIAbort") {
		OK(aclmdlRIAbort(m));
		EFFECT(aclmdlRIExecuteAsync(m, s) == ACL_SUCCESS);
		REFUSES("modelRI-null", aclmdlRIAbort(NULL));
	}
	OK(aclrtSynchronizeStream(s));
	FUNCTION("aclmdlRISetName") {
		OK(aclmdlRISetName(m, "step"));
		EFFECT(true);
		REFUSES("name-null", aclmdlRISetName(m, NULL));
	}
	FUNCTION("aclmdlRIGetName") {
		char name[16] = "";
		OK(aclmdlRIGetName(m, sizeof name, name));
		EFFECT(strcmp(name, "step") == 0);
		REFUSES("maxLen-too-small", aclmdlRIGetName(m, 4, name));
	}
	FUNCTION("aclmdlRIGetId") {
		uint32_t id = 0;
		OK(aclmdlRIGetId(m, &id));
		EFFECT(id != 0);
		REFUSES("modelRIId-null", aclmdlRIGetId(m, NULL));
	}
	FUNCTION("aclmdlRIDebugPrint") {
		OK(aclmdlRIDebugPrint(m));
		EFFECT(true);
		REFUSES("modelRI-null", aclmdlRIDebugPrint(NULL));
	}
	FUNCTION("aclmdlRIDebugJsonPrint") {
		OK(aclmdlRIDebugJsonPrint(m, "/dev/null", 0));
		EFFECT(true);
		REFUSES("not-writable", aclmdlRIDebugJsonPrint(m, "/dev/null/x", 0));
	}
	int one = 1, ten = 10;
	FUNCTION("aclmdlRIDestroyRegisterCallback") {
		OK(aclmdlRIDestroyRegisterCallback(m, count_end, &one));
		EFFECT(ended == 0);
		REFUSES("registered", aclmdlRIDestroyRegisterCallback(m, count_end, &ten));
	}
	FUNCTION("aclmdlRIDestroyUnregisterCallback") {
		OK(aclmdlRIDestroyUnregisterCallback(m, count_end));
		EFFECT(aclmdlRIDestroyRegisterCallback(m, count_end, &ten) == ACL_SUCCESS);
		REFUSES("func-null", aclmdlRIDestroyUnregisterCallback(m, NULL));
	}
	FUNCTION("aclmdlRIDestroy") {
		OK(aclmdlRIDestroy(m));
		EFFECT(ended == 10);
		REFUSES("modelRI-not-live", aclmdlRIDestroy(m));
	}
}

/* Tasks are listed, read and changed. */
static void changes(aclrtStream s, void *word)
{
	OK(aclmdlRICaptureBegin(s, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
	OK(aclrtValueWrite(word, 7, 0, s));
	aclmdlRI m = model_of(s);
	aclrtStream inner = NULL;
	aclmdlRITask task = NULL;
	FUNCTION("aclmdlRIGetStreams") {
		uint32_t n = 1;
		OK(aclmdlRIGetStreams(m, &inner, &n));
		EFFECT(n == 1 && inner != NULL && inner != s);
		REFUSES("numStreams-null", aclmdlRIGetStreams(m, NULL, NULL));
	}
	FUNCTION("aclmdlRIGetTasksByStream") {
		uint32_t n = 1;
		OK(aclmdlRIGetTasksByStream(inner, &task, &n));
		EFFECT(n == 1 && task != NULL);
		REFUSES("stream-of-no-model", aclmdlRIGetTasksByStream(s, NULL, &n));
	}
	FUNCTION("aclmdlRITaskGetType") {
		aclmdlRITaskType type = ACL_MODEL_RI_TASK_DEFAULT;
		OK(aclmdlRITaskGetType(task, &type));
		EFFECT(type == ACL_MODEL_RI_TASK_VALUE_WRITE);
		REFUSES("task-null", aclmdlRITaskGetType(NULL, &type));
	}
	FUNCTION("aclmdlRITaskGetSeqId") {
		uint32_t id = 9;
		OK(aclmdlRITaskGetSeqId(task, &id));
		EFFECT(id == 0);
		REFUSES("task-null", aclmdlRITaskGetSeqId(NULL, &id));
	}
	aclmdlRITaskParams params;
	FUNCTION("aclmdlRITaskGetParams") {
		OK(aclmdlRITaskGetParams(task, &params));
		EFFECT(params.type == ACL_MODEL_RI_TASK_VALUE_WRITE && params.valueWriteTaskParams.value == 7 && params.valueWriteTaskParams.devAddr == word);
		REFUSES("params-null", aclmdlRITaskGetParams(task, NULL));
	}
	FUNCTION("aclmdlRITaskSetParams") {
		params.valueWriteTaskParams.value = 8;
		OK(aclmdlRITaskSetParams(task, &params));
		EFFECT(aclmdlRIExecuteAsync(m, s) == ACL_ERROR_RT_MODEL_EXECUTE);
		REFUSES("task-null", aclmdlRITaskSetParams(NULL, &params));
	}
	FUNCTION("aclmdlRIUpdate") {
		OK(aclmdlRIUpdate(m));
		OK(aclmdlRIExecuteAsync(m, s));
		OK(aclrtSynchronizeStream(s));
		EFFECT(word_of(word) == 8);
		REFUSES("modelRI-null", aclmdlRIUpdate(NULL));
	}
	FUNCTION("aclmdlRITaskDisable") {
		OK(aclmdlRITaskDisable(task));
		OK(aclmdlRIUpdate(m));
		OK(aclrtMemset(word, 8, 0, 8));
		OK(aclmdlRIExecuteAsync(m, s));
		OK(aclrtSynchronizeStream(s));
		EFFECT(word_of(word) == 0);
		REFUSES("task-null", aclmdlRITaskDisable(NULL));
	}
	OK(aclmdlRIDestroy(m));
}

/* A loop of three rounds, each of which takes one from the value, and copies it. */
static void conditions(aclrtStream s, void *word)
{
	aclrtStream in;
	aclmdlRI m = NULL, sub = NULL;
	aclmdlRICondHandle c = NULL;
	uint64_t *value = NULL;
	int32_t minus = -1;
	void *less;
	OK(aclrtCreateStream(&in));
	OK(aclrtMalloc(&less, 64, ACL_MEM_MALLOC_HUGE_FIRST));
	OK(aclrtMemcpy(less, sizeof minus, &minus, sizeof minus, ACL_MEMCPY_HOST_TO_DEVICE));
	OK(aclmdlRICaptureBegin(s, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
	OK(aclmdlRICaptureGetInfo(s, NULL, &m));
	FUNCTION("aclmdlRICondHandleCreate") {
		OK(aclmdlRICondHandleCreate(m, 3, ACL_MODEL_RI_COND_HANDLE_ASSIGN_DEFAULT, &c));
		EFFECT(c != NULL);
		REFUSES("flag-not-0-and-not-1", aclmdlRICondHandleCreate(m, 3, (aclmdlRICondHandleFlag)2, &c));
	}
	FUNCTION("aclmdlRICondHandleGetCondPtr") {
		OK(aclmdlRICondHandleGetCondPtr(c, &value));
		EFFECT(word_of(value) == 0);
		REFUSES("handle-not-live", aclmdlRICondHandleGetCondPtr(m, &value));
	}
	FUNCTION("aclmdlRIAddCondTask") {
		aclmdlRICondTaskParams params = {c, ACL_MODEL_RI_COND_TYPE_WHILE, 1, &sub};
		OK(aclmdlRIAddCondTask(params, s, 0));
		EFFECT(sub != NULL);
		REFUSES("condition-used", aclmdlRIAddCondTask(params, s, 0));
	}
	FUNCTION("aclmdlRICaptureToModelRIBegin") {
		OK(aclmdlRICaptureToModelRIBegin(in, sub, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
		EFFECT(true);
		REFUSES("captured-before", aclmdlRICaptureToModelRIBegin(in, sub, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
	}
	OK(aclrtReduceAsync(value, less, 4, ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM, ACL_INT32, in, NULL));
	OK(aclrtMemcpyAsync(word, 8, value, 8, ACL_MEMCPY_DEVICE_TO_DEVICE, in));
	OK(aclmdlRICaptureEnd(in, NULL));
	m = model_of(s);
	OK(aclrtMemset(word, 8, 9, 8));
	OK(aclmdlRIExecuteAsync(m, s));
	OK(aclrtSynchronizeStream(s));
	CHECK(word_of(word) == 0 && word_of(value) == 0);
	OK(aclmdlRIDestroy(m));
	OK(aclrtFree(less));
	OK(aclrtDestroyStream(in));
}

/* A stream starts another one; a switch is not taken, and a jump passes something over. */
static void builds(aclrtStream on)
{
	aclmdlRI m = NULL;
	aclrtStream s, other;
	aclrtLabel label = NULL;
	aclrtLabelList list = NULL;
	char *word;
	OK(aclrtMalloc((void **)&word, 64, ACL_MEM_MALLOC_HUGE_FIRST));
	OK(aclrtMemset(word, 64, 0, 64));
	OK(aclrtCreateStreamWithConfig(&s, 0, ACL_STREAM_PERSISTENT));
	OK(aclrtCreateStreamWithConfig(&other, 0, ACL_STREAM_PERSISTENT));
	FUNCTION("aclmdlRIBuildBegin") {
		OK(aclmdlRIBuildBegin(&m, 0));
		EFFECT(m != NULL);
		REFUSES("flag-not-0", aclmdlRIBuildBegin(&m, 1));
	}
	FUNCTION("aclmdlRIBindStream") {
		OK(aclmdlRIBindStream(m, s, 0));
		OK(aclmdlRIBindStream(m, other, 0x7FFFFFFF));
		EFFECT(aclrtDestroyStream(s) == ACL_ERROR_RT_STREAM_MODEL);
		REFUSES("stream-bound", aclmdlRIBindStream(m, s, 0));
	}
	FUNCTION("aclrtCreateLabel") {
		OK(aclrtCreateLabel(&label));
		EFFECT(label != NULL);
		REFUSES("label-null", aclrtCreateLabel(NULL));
	}
	FUNCTION("aclrtCreateLabelList") {
		OK(aclrtCreateLabelList(&label, 1, &list));
		EFFECT(list != NULL);
		REFUSES("entry-listed", aclrtCreateLabelList(&label, 1, &list));
	}
	FUNCTION("aclrtSwitchStream") {
		OK(aclrtSwitchStream(word, ACL_RT_GREATER, word, ACL_RT_SWITCH_INT64, other, NULL, s));
		EFFECT(true);
		REFUSES("falseStream-not-null", aclrtSwitchStream(word, ACL_RT_GREATER, word, ACL_RT_SWITCH_INT64, other, other, s));
	}
	FUNCTION("aclrtSwitchLabelByIndex") {
		OK(aclrtSwitchLabelByIndex(word, 0, list, s));
		EFFECT(true);
		REFUSES("no-label-list", aclrtSwitchLabelByIndex(word, 0, word, s));
	}
	OK(aclrtValueWrite(word + 16, 9, 0, s));
	FUNCTION("aclrtSetLabel") {
		OK(aclrtSetLabel(label, s));
		EFFECT(true);
		REFUSES("label-set", aclrtSetLabel(label, s));
	}
	FUNCTION("aclrtActiveStream") {
		OK(aclrtActiveStream(other, s));
		EFFECT(true);
		REFUSES("activeStream-not-bound", aclrtActiveStream(on, s));
	}
	OK(aclrtValueWrite(word + 8, 7, 0, other));
	FUNCTION("aclrtTaskUpdateAsync") {
		aclrtRandomNumTaskInfo task = {.dataType = ACL_UINT32, .randomResultAddr = word + 24, .randomCounterAddr = word + 32};
		uint64_t most = 5, seed = 42, count = 1;
		task.randomNumFuncParaInfo.funcType = ACL_RT_RANDOM_NUM_FUNC_TYPE_UNIFORM_DIS;
		aclrtUniformDisInfo *uniform = &task.randomNumFuncParaInfo.paramInfo.uniformDisInfo;
		uniform->min.size = 4;
		memcpy(uniform->max.valueOrAddr, &most, uniform->max.size = 4);
		memcpy(task.randomSeed.valueOrAddr, &seed, task.randomSeed.size = sizeof seed);
		memcpy(task.randomNum.valueOrAddr, &count, task.randomNum.size = sizeof count);
		uint32_t number;
		OK(aclrtRandomNumAsync(&task, other, NULL));
		OK(aclrtGetThreadLastTaskId(&number));
		task.randomResultAddr = word + 56; /* the number goes there, and not to word + 24 */
		void *parameters;
		OK(aclrtMalloc(&parameters, sizeof task, ACL_MEM_MALLOC_HUGE_FIRST));
		OK(aclrtMemcpy(parameters, sizeof task, &task, sizeof task, ACL_MEMCPY_HOST_TO_DEVICE));
		aclrtTaskUpdateInfo info = {.id = ACL_RT_UPDATE_RANDOM_TASK, .val.randomTaskAttr = {parameters, sizeof task, {0}}};
		OK(aclrtMemset(word + 24, 8, 9, 8));
		OK(aclrtMemset(word + 56, 8, 9, 8));
		OK(aclrtTaskUpdateAsync(other, number, &info, on));
		OK(aclrtSynchronizeStream(on));
		OK(aclrtFree(parameters));
		EFFECT(word_of(word + 24) == word_of(word + 56)); /* until the model runs, see below */
		REFUSES("random-task-unknown", aclrtTaskUpdateAsync(other, number + 50, &info, on));
		info.val.randomTaskAttr.size = 8;
		REFUSES("random-size", aclrtTaskUpdateAsync(other, number, &info, on));
		info.id = ACL_RT_UPDATE_AIC_AIV_TASK;
		info.val.aicAivTaskAttr = (aclrtAicAivTaskUpdateAttr){word, word, word, {0}};
		REFUSES("kernel-binary-not-live", aclrtTaskUpdateAsync(other, number, &info, s));
	}
	FUNCTION("aclmdlRIEndTask") {
		OK(aclmdlRIEndTask(m, other));
		EFFECT(aclmdlRIExecute(m, -1) == ACL_ERROR_RT_MODEL_EXECUTE);
		REFUSES("not-bound-to-model", aclmdlRIEndTask(m, on));
	}
	FUNCTION("aclmdlRIBuildEnd") {
		OK(aclmdlRIBuildEnd(m, NULL));
		EFFECT(word_of(word + 8) == 0);
		REFUSES("reserve-not-null", aclmdlRIBuildEnd(m, word));
	}
	FUNCTION("aclmdlRIExecute") {
		OK(aclmdlRIExecute(m, 60000));
		EFFECT(word_of(word + 8) == 7 && word_of(word + 16) == 0);
		EFFECT(word_of(word + 24) != word_of(word + 56)); /* aclrtTaskUpdateAsync */
		REFUSES("timeout-0-or-below-minus-1", aclmdlRIExecute(m, 0));
	}
	FUNCTION("aclmdlRIUnbindStream") {
		OK(aclmdlRIUnbindStream(m, other));
		EFFECT(aclrtDestroyStream(other) == ACL_SUCCESS);
		REFUSES("not-bound-to-model", aclmdlRIUnbindStream(m, on));
	}
	OK(aclmdlRIDestroy(m));
	FUNCTION("aclrtDestroyLabelList") {
		OK(aclrtDestroyLabelList(list));
		EFFECT(true);
		REFUSES("as-aclrtFree", aclrtDestroyLabelList(list));
	}
	FUNCTION("aclrtDestroyLabel") {
		OK(aclrtDestroyLabel(label));
		EFFECT(true);
		REFUSES("label-not-live", aclrtDestroyLabel(label));
	}
	OK(aclrtDestroyStream(s));
	OK(aclrtFree(word));
}

static void groups(aclrtStream s)
{
	aclrtTaskGrp group = NULL;
	OK(aclmdlRICaptureBegin(s, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
	FUNCTION("aclmdlRICaptureTaskGrpBegin") {
		OK(aclmdlRICaptureTaskGrpBegin(s));
		EFFECT(true);
		REFUSES("group-open", aclmdlRICaptureTaskGrpBegin(s));
	}
	FUNCTION("aclmdlRICaptureTaskGrpEnd") {
		OK(aclmdlRICaptureTaskGrpEnd(s, &group));
		EFFECT(group != NULL);
		REFUSES("no-group", aclmdlRICaptureTaskGrpEnd(s, &group));
	}
	aclmdlRI m = model_of(s);
	FUNCTION("aclmdlRICaptureTaskUpdateBegin") {
		OK(aclmdlRICaptureTaskUpdateBegin(s, group));
		EFFECT(true);
		REFUSES("updating", aclmdlRICaptureTaskUpdateBegin(s, group));
	}
	FUNCTION("aclmdlRICaptureTaskUpdateEnd") {
		OK(aclmdlRICaptureTaskUpdateEnd(s));
		EFFECT(true);
		REFUSES("not-updating", aclmdlRICaptureTaskUpdateEnd(s));
	}
	OK(aclmdlRIDestroy(m));
}

void functions_models(void)
{
	aclrtStream s;
	void *word;
	OK(aclrtCreateStream(&s));
	OK(aclrtMalloc(&word, 64, ACL_MEM_MALLOC_HUGE_FIRST));
	OK(aclrtMemset(word, 64, 0, 64));
	captures(s, word);
	changes(s, word);
	conditions(s, word);
	builds(s);
	groups(s);
	OK(aclrtFree(word));
	OK(aclrtDestroyStream(s));
}
