/*
 * What processes share: group ipc-memory, and of notify, event and vmm the functions with keys and handles. This process exports; it starts
 * itself again to import, because much of it cannot be imported where it comes from.
 */
#include "proof.h"

#include <sys/wait.h>

void functions_sharing(const char *self, bool a3);
void functions_visiting(char **keys);

enum { PIECE = 2 * 1024 * 1024, KEY = 65, HEX = 2 * sizeof(aclrtIpcEventHandle) + 1 };

/* What the importing process reads. */
struct keys {
	char memory[KEY], notify[KEY], event[HEX], first[32], second[32];
};

static void to_hex(const aclrtIpcEventHandle *handle, char *text)
{
	for (size_t i = 0; i < sizeof *handle; i++)
		sprintf(text + 2 * i, "%02x", ((const unsigned char *)handle)[i]);
}

static void from_hex(aclrtIpcEventHandle *handle, const char *text)
{
	for (size_t i = 0; i < sizeof *handle; i++) {
		unsigned byte;
		CHECK(sscanf(text + 2 * i, "%2x", &byte) == 1);
		((unsigned char *)handle)[i] = (unsigned char)byte;
	}
}

/* The other process. It prints what it has proven, as this one does. */
static int visit(const char *self, const struct keys *keys)
{
	fflush(NULL);
	pid_t other = fork();
	CHECK(other >= 0);
	if (other == 0) {
		execl(self, self, "visit", keys->memory, keys->notify, keys->event, keys->first, keys->second, (char *)NULL);
		_exit(127);
	}
	int status;
	CHECK(waitpid(other, &status, 0) == other && WIFEXITED(status));
	return WEXITSTATUS(status);
}

static aclrtDrvMemHandle physical(void)
{
	const aclrtPhysicalMemProp prop = {
		.memAttr = ACL_HBM_MEM_HUGE,
		.location = {.id = 0, .type = ACL_MEM_LOCATION_TYPE_DEVICE},
	};
	aclrtDrvMemHandle handle;
	OK(aclrtMallocPhysical(&handle, PIECE, &prop, 0));
	return handle;
}

/* Write a pattern into memory that has no address. */
static void fill_physical(aclrtDrvMemHandle handle)
{
	void *at;
	OK(aclrtReserveMemAddress(&at, PIECE, 0, NULL, 0));
	OK(aclrtMapMem(at, PIECE, 0, handle, 0));
	fill(at, NEW);
	OK(aclrtUnmapMem(at));
	OK(aclrtReleaseMemAddress(at));
}

static bool physical_holds(aclrtDrvMemHandle handle)
{
	void *at;
	OK(aclrtReserveMemAddress(&at, PIECE, 0, NULL, 0));
	OK(aclrtMapMem(at, PIECE, 0, handle, 0));
	bool good = holds(at, ROOM, NEW);
	OK(aclrtUnmapMem(at));
	OK(aclrtReleaseMemAddress(at));
	return good;
}

static void exporting(const char *self)
{
	struct keys keys = {.memory = ""};
	void *memory;
	int32_t pids[2] = {0, 0};
	OK(aclrtDeviceGetBareTgid(&pids[0]));
	OK(aclrtMalloc(&memory, PIECE, ACL_MEM_MALLOC_HUGE_FIRST));
	fill(memory, NEW);
	FUNCTION("aclrtIpcMemGetExportKey") {
		OK(aclrtIpcMemGetExportKey(memory, PIECE, keys.memory, KEY, ACL_RT_IPC_MEM_EXPORT_FLAG_DISABLE_PID_VALIDATION));
		EFFECT(keys.memory[0] != '\0' && strnlen(keys.memory, KEY) < KEY);
		REFUSES("len-0", aclrtIpcMemGetExportKey(memory, PIECE, keys.memory, 0, 0));
		REFUSES("driver-refuses-range", aclrtIpcMemGetExportKey(scene.pin[0], ROOM, keys.memory, KEY, 0));
	}
	FUNCTION("aclrtIpcMemSetImportPid") {
		char listed[KEY];
		OK(aclrtIpcMemGetExportKey(memory, PIECE, listed, KEY, 0));
		OK(aclrtIpcMemSetImportPid(listed, pids, 1));
		EFFECT(strcmp(listed, keys.memory) != 0);
		REFUSES("num-at-most-0", aclrtIpcMemSetImportPid(listed, pids, 0));
		REFUSES("not-exported", aclrtIpcMemSetImportPid("no key", pids, 1));
		REFUSES("exported-for-all", aclrtIpcMemSetImportPid(keys.memory, pids, 1));
		REFUSES("pids", aclrtIpcMemSetImportPid(listed, pids + 1, 1));
		OK(aclrtIpcMemClose(listed));
	}
	aclrtNotify notify;
	OK(aclrtCreateNotify(&notify, 0));
	FUNCTION("aclrtNotifyGetExportKey") {
		OK(aclrtNotifyGetExportKey(notify, keys.notify, KEY, 2));
		EFFECT(keys.notify[0] != '\0' && strnlen(keys.notify, KEY) < KEY);
		REFUSES("exported-already", aclrtNotifyGetExportKey(notify, keys.notify, KEY, 2));
	}
	FUNCTION("aclrtNotifySetImportPid") {
		OK(aclrtNotifySetImportPid(notify, pids, 1));
		EFFECT(true);
	}
	FUNCTION("aclrtNotifySetImportPidInterServer") {
		aclrtServerPid server = {.sdid = 0, .pid = pids, .num = 1};
		REFUSES("entry-not-offered", aclrtNotifySetImportPidInterServer(notify, &server, 1)); /* there is no other server */
		EFFECT(true);
	}
	aclrtEvent event, ordinary;
	aclrtIpcEventHandle handle;
	OK(aclrtCreateEventExWithFlag(&event, ACL_EVENT_IPC));
	OK(aclrtCreateEvent(&ordinary));
	FUNCTION("aclrtIpcGetEventHandle") {
		memset(&handle, 0, sizeof handle);
		OK(aclrtIpcGetEventHandle(event, &handle));
		to_hex(&handle, keys.event);
		EFFECT(strspn(keys.event, "0") != strlen(keys.event));
	}
	OK(aclrtDestroyEvent(ordinary));
	uint64_t first = 0, second = 0;
	aclrtDrvMemHandle a = physical(), b = physical();
	fill_physical(a);
	fill_physical(b);
	FUNCTION("aclrtMemExportToShareableHandle") {
		OK(aclrtMemExportToShareableHandle(a, ACL_MEM_HANDLE_TYPE_NONE, 1, &first));
		EFFECT(first != 0);
		REFUSES("exported-already", aclrtMemExportToShareableHandle(a, ACL_MEM_HANDLE_TYPE_NONE, 1, &first));
	}
	FUNCTION("aclrtMemExportToShareableHandleV2") {
		OK(aclrtMemExportToShareableHandleV2(b, 1, ACL_MEM_SHARE_HANDLE_TYPE_DEFAULT, &second));
		EFFECT(second != 0 && second != first);
		REFUSES("exported-already", aclrtMemExportToShareableHandleV2(b, 1, ACL_MEM_SHARE_HANDLE_TYPE_DEFAULT, &second));
	}
	FUNCTION("aclrtMemSetPidToShareableHandle") {
		aclrtDrvMemHandle handle = physical();
		uint64_t listed = 0;
		OK(aclrtMemExportToShareableHandle(handle, ACL_MEM_HANDLE_TYPE_NONE, 0, &listed));
		OK(aclrtMemSetPidToShareableHandle(listed, pids, 1));
		EFFECT(true);
		REFUSES("pids", aclrtMemSetPidToShareableHandle(listed, pids + 1, 1));
		OK(aclrtFreePhysical(handle));
		REFUSES("no-exporter", aclrtMemSetPidToShareableHandle(12345, pids, 1));
		REFUSES("exported-for-all", aclrtMemSetPidToShareableHandle(first, pids, 1));
	}
	FUNCTION("aclrtMemSetPidToShareableHandleV2") {
		aclrtDrvMemHandle handle = physical();
		uint64_t listed = 0;
		OK(aclrtMemExportToShareableHandleV2(handle, 0, ACL_MEM_SHARE_HANDLE_TYPE_DEFAULT, &listed));
		OK(aclrtMemSetPidToShareableHandleV2(&listed, ACL_MEM_SHARE_HANDLE_TYPE_DEFAULT, pids, 1));
		EFFECT(true);
		OK(aclrtFreePhysical(handle));
		REFUSES("exported-for-all", aclrtMemSetPidToShareableHandleV2(&second, ACL_MEM_SHARE_HANDLE_TYPE_DEFAULT, pids, 1));
	}
	sprintf(keys.first, "%llu", (unsigned long long)first);
	sprintf(keys.second, "%llu", (unsigned long long)second);

	OK(aclrtRecordEvent(event, scene.stream));
	OK(aclrtSynchronizeStream(scene.stream));
	OK(aclrtWaitAndResetNotify(notify, scene.stream, 60));
	CHECK(visit(self, &keys) == 0);
	OK(aclrtSynchronizeStream(scene.stream)); /* it recorded the notify */
	CHECK(holds(memory, ROOM, OLD));          /* it wrote into the memory */
	FUNCTION("aclrtIpcMemClose") {
		OK(aclrtIpcMemClose(keys.memory));
		EFFECT(aclrtIpcMemClose(keys.memory) == ACL_ERROR_RT_PARAM_INVALID);
		REFUSES("key-unknown", aclrtIpcMemClose(keys.memory));
	}
	OK(aclrtFreePhysical(a));
	OK(aclrtFreePhysical(b));
	OK(aclrtDestroyEvent(event));
	OK(aclrtDestroyNotify(notify));
	OK(aclrtFree(memory));
}

/* The importing process. */
void functions_visiting(char **keys)
{
	unsigned char *memory = NULL;
	FUNCTION("aclrtIpcMemImportByKey") {
		OK(aclrtIpcMemImportByKey((void **)&memory, keys[0], 0));
		EFFECT(holds(memory, ROOM, NEW));
		REFUSES("not-a-key", aclrtIpcMemImportByKey((void **)&memory, "no key", 0));
	}
	fill(memory, OLD);
	OK(aclrtIpcMemClose(keys[0]));
	aclrtNotify notify = NULL;
	FUNCTION("aclrtNotifyImportByKey") {
		OK(aclrtNotifyImportByKey(&notify, keys[1], 0));
		OK(aclrtRecordNotify(notify, scene.stream));
		EFFECT(aclrtSynchronizeStream(scene.stream) == ACL_SUCCESS);
	}
	OK(aclrtDestroyNotify(notify));
	aclrtIpcEventHandle handle;
	aclrtEvent event = NULL;
	from_hex(&handle, keys[2]);
	FUNCTION("aclrtIpcOpenEventHandle") {
		OK(aclrtIpcOpenEventHandle(handle, &event));
		EFFECT(aclrtSynchronizeEvent(event) == ACL_SUCCESS); /* the other process recorded it */
		REFUSES("event-null", aclrtIpcOpenEventHandle(handle, NULL));
		memset(&handle, 0, sizeof handle);
		REFUSES("handle-invalid", aclrtIpcOpenEventHandle(handle, &event));
	}
	OK(aclrtDestroyEvent(event));
	aclrtDrvMemHandle physical = NULL;
	uint64_t number = strtoull(keys[3], NULL, 10);
	FUNCTION("aclrtMemImportFromShareableHandle") {
		OK(aclrtMemImportFromShareableHandle(number, 0, &physical));
		EFFECT(physical_holds(physical));
		OK(aclrtFreePhysical(physical));
		REFUSES("no-exporter", aclrtMemImportFromShareableHandle(12345, 0, &physical));
	}
	number = strtoull(keys[4], NULL, 10);
	FUNCTION("aclrtMemImportFromShareableHandleV2") {
		OK(aclrtMemImportFromShareableHandleV2(&number, ACL_MEM_SHARE_HANDLE_TYPE_DEFAULT, 0, &physical));
		EFFECT(physical_holds(physical));
		OK(aclrtFreePhysical(physical));
		number = 12345;
		REFUSES("no-exporter", aclrtMemImportFromShareableHandleV2(&number, ACL_MEM_SHARE_HANDLE_TYPE_DEFAULT, 0, &physical));
	}
}

/* On an A3. */
static void linking(void)
{
	char key[KEY];
	int32_t pid;
	void *memory;
	OK(aclrtDeviceGetBareTgid(&pid));
	OK(aclrtMalloc(&memory, PIECE, ACL_MEM_MALLOC_HUGE_FIRST));
	OK(aclrtIpcMemGetExportKey(memory, PIECE, key, KEY, 0));
	FUNCTION("aclrtIpcMemSetAttr") {
		OK(aclrtIpcMemSetAttr(key, ACL_RT_IPC_MEM_ATTR_ACCESS_LINK, ACL_RT_IPC_MEM_ATTR_ACCESS_LINK_HCCS));
		EFFECT(true);
		REFUSES("driver-refuses", aclrtIpcMemSetAttr("no key", ACL_RT_IPC_MEM_ATTR_ACCESS_LINK, ACL_RT_IPC_MEM_ATTR_ACCESS_LINK_HCCS));
	}
	FUNCTION("aclrtIpcMemImportPidInterServer") {
		aclrtServerPid server = {.sdid = 0, .pid = &pid, .num = 1};
		OK(aclrtIpcMemImportPidInterServer(key, &server, 1));
		EFFECT(true);
		server.pid = NULL;
		REFUSES("entry-pid-null", aclrtIpcMemImportPidInterServer(key, &server, 1));
	}
	OK(aclrtIpcMemClose(key));
	OK(aclrtFree(memory));
}

void functions_sharing(const char *self, bool a3)
{
	if (a3)
		linking();
	else
		exporting(self);
}
