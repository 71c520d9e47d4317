/*
 * Two servers of a pod: device memory and notifies by key, words that streams wait for, and what does not reach another server. Server 0 owns
 * everything. Started once for each server with ROPEWAY_POD_SERVER; they meet by files in the directory argv[2].
 */
#include "servers.h"

enum { SMALL = 3 * 4096 };

static int32_t other_pid;
static uint32_t other_sdid;

/* Both say who they are. */
static void meet(const char *me, const char *them)
{
	int64_t id;
	int32_t pid;
	struct { int32_t pid; uint32_t sdid; } mine, theirs;
	OK(aclrtGetDeviceInfo(0, ACL_DEV_ATTR_SUPER_POD_DEVICE_ID, &id));
	OK(aclrtDeviceGetBareTgid(&pid));
	mine.pid = pid;
	mine.sdid = (uint32_t)id;
	put(me, &mine, sizeof(mine));
	get(them, &theirs, sizeof(theirs));
	other_pid = theirs.pid;
	other_sdid = theirs.sdid;
}

static void pattern(unsigned char *p, int seed)
{
	for (int i = 0; i < SMALL; i++)
		p[i] = (unsigned char)(i * 5 + (i >> 6) + seed);
}

static void same(int seed, const char *what)
{
	static unsigned char want[SMALL];
	pattern(want, seed);
	if (memcmp(host, want, SMALL) != 0)
		FAIL("%s: other bytes", what);
	memset(host, 0, SMALL);
}

static void up(void *p) { OK(aclrtMemcpy(p, SMALL, host, SMALL, ACL_MEMCPY_HOST_TO_DEVICE)); }
static void down(void *p) { OK(aclrtMemcpy(host, SMALL, p, SMALL, ACL_MEMCPY_DEVICE_TO_HOST)); }

static void owner(void)
{
	char key[65], open[65], nkey[65];
	void *before, *p, *words;
	OK(aclrtMalloc(&before, 4096, ACL_MEM_MALLOC_HUGE_FIRST));
	OK(aclrtMalloc(&p, SMALL, ACL_MEM_MALLOC_HUGE_FIRST));
	OK(aclrtMalloc(&words, 4096, ACL_MEM_MALLOC_HUGE_FIRST));
	pattern(host, 1);
	up(p);

	/* memory by key, for processes of the other server that are named */
	OK(aclrtIpcMemGetExportKey(p, SMALL, key, sizeof(key), 0));
	OK(aclrtIpcMemGetExportKey(words, 4096, open, sizeof(open), 1));
	put("key", key, sizeof(key));
	put("open", open, sizeof(open));
	hear("unnamed");
	int32_t wrong = other_pid + 1, none = 0;
	aclrtServerPid entry = {.sdid = other_sdid, .pid = &wrong, .num = 1}, nowhere = {.sdid = 77u << 22, .pid = &wrong, .num = 1};
	WANT(aclrtIpcMemImportPidInterServer(open, &entry, 1), ACL_ERROR_RT_NO_PERMISSION);
	WANT(aclrtIpcMemImportPidInterServer(key, &nowhere, 1), ACL_ERROR_RT_INVALID_HANDLE);
	OK(aclrtIpcMemImportPidInterServer(key, &entry, 1));
	entry.pid = &none;
	WANT(aclrtIpcMemImportPidInterServer(key, &entry, 1), ACL_ERROR_RT_DRV_INTERNAL_ERROR);
	entry.num = 0;
	WANT(aclrtIpcMemImportPidInterServer(key, &entry, 1), ACL_ERROR_RT_PARAM_INVALID);
	entry.num = 32;
	WANT(aclrtIpcMemImportPidInterServer(key, &entry, 1), ACL_ERROR_RT_PARAM_INVALID);
	say("wrong named");
	hear("still unnamed");
	entry = (aclrtServerPid){.sdid = other_sdid, .pid = &other_pid, .num = 1};
	OK(aclrtIpcMemImportPidInterServer(key, &entry, 1));
	say("named");
	hear("written");
	down(p);
	same(2, "what the importer wrote");

	/* a notify: the other server records it after a copy, streams here wait for it */
	aclrtNotify n;
	OK(aclrtCreateNotify(&n, 0));
	WANT(aclrtNotifySetImportPidInterServer(n, &entry, 1), ACL_ERROR_RT_PARAM_INVALID); /* not exported */
	OK(aclrtNotifyGetExportKey(n, nkey, sizeof(nkey), 0));
	WANT(aclrtNotifySetImportPidInterServer(n, &nowhere, 1), ACL_ERROR_RT_INVALID_HANDLE);
	put("notify", nkey, sizeof(nkey));
	hear("notify unnamed");
	entry.pid = &wrong;
	OK(aclrtNotifySetImportPidInterServer(n, &entry, 1));
	say("notify wrong");
	hear("notify refused");
	entry.pid = &other_pid;
	OK(aclrtNotifySetImportPidInterServer(n, &entry, 1));
	say("notify named");
	for (int round = 0; round < 50; round++) {
		OK(aclrtWaitAndResetNotify(n, stream, 0));
		OK(aclrtMemcpyAsync(host, SMALL, p, SMALL, ACL_MEMCPY_DEVICE_TO_HOST, stream));
		OK(aclrtSynchronizeStream(stream));
		same(100 + round, "what was copied before the record");
		OK(aclrtMemsetAsync(p, SMALL, 0, SMALL, stream));
		OK(aclrtSynchronizeStream(stream));
		char name[32];
		snprintf(name, sizeof(name), "seen %d", round);
		say(name);
	}
	hear("reset"); /* the other server has recorded and cleared it */
	OK(aclrtWaitAndResetNotify(n, stream, 1));
	WANT(aclrtSynchronizeStreamWithTimeout(stream, 60000), ACL_ERROR_RT_TASK_TIMEOUT);
	OK(aclrtDestroyNotify(n));

	/* words: each side waits for a value that the other writes */
	OK(aclrtMemset(words, 4096, 0, 4096));
	char wkey[65];
	OK(aclrtIpcMemGetExportKey(words, 4096, wkey, sizeof(wkey), 0));
	OK(aclrtIpcMemImportPidInterServer(wkey, &entry, 1));
	put("words", wkey, sizeof(wkey));
	for (uint64_t round = 1; round <= 20; round++) {
		OK(aclrtValueWait(words, round, 1, stream));
		OK(aclrtValueWrite((char *)words + 8, round, 0, stream));
		OK(aclrtSynchronizeStream(stream));
	}

	/* an event does not leave its server */
	aclrtEvent e;
	aclrtIpcEventHandle eh;
	OK(aclrtCreateEventExWithFlag(&e, ACL_EVENT_IPC));
	OK(aclrtIpcGetEventHandle(e, &eh));
	put("event", &eh, sizeof(eh));
	hear("done");
	OK(aclrtDestroyEvent(e));
	OK(aclrtIpcMemClose(key));
	OK(aclrtIpcMemClose(open));
	OK(aclrtIpcMemClose(wkey));
	say("closed");
	hear("gone");
	OK(aclrtFree(words));
	OK(aclrtFree(p));
	OK(aclrtFree(before));
}

static void user(void)
{
	char key[65], open[65], nkey[65], wkey[65];
	void *far, *again, *local, *words;
	OK(aclrtMalloc(&local, SMALL, ACL_MEM_MALLOC_HUGE_FIRST));
	get("key", key, sizeof(key));
	get("open", open, sizeof(open));
	WANT(aclrtIpcMemImportByKey(&far, key, 0), ACL_ERROR_RT_DRV_INTERNAL_ERROR);
	SAYS(aclrtIpcMemImportByKey(&far, open, 0), ACL_ERROR_RT_DRV_INTERNAL_ERROR, "If it is of another server of the pod");
	say("unnamed");
	hear("wrong named");
	WANT(aclrtIpcMemImportByKey(&far, key, 0), ACL_ERROR_RT_DRV_INTERNAL_ERROR);
	say("still unnamed");
	hear("named");
	OK(aclrtIpcMemImportByKey(&far, key, 0));
	OK(aclrtMemcpyAsync(local, SMALL, far, SMALL, ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
	OK(aclrtSynchronizeStream(stream));
	down(local);
	same(1, "what the owner has");
	WANT(aclrtMemcpyAsync(local, SMALL, (char *)far + 1, SMALL, ACL_MEMCPY_DEVICE_TO_DEVICE, stream), ACL_ERROR_RT_PARAM_INVALID);
	WANT(aclrtIpcMemGetExportKey(far, SMALL, wkey, sizeof(wkey), 0), ACL_ERROR_RT_PARAM_INVALID);
	OK(aclrtIpcMemImportByKey(&again, key, 0));
	if (again != far)
		FAIL("a second import has another address");
	pattern(host, 2);
	up(local);
	OK(aclrtMemcpyAsync(again, SMALL, local, SMALL, ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
	OK(aclrtSynchronizeStream(stream));
	OK(aclrtIpcMemClose(key));
	say("written");

	aclrtNotify n;
	get("notify", nkey, sizeof(nkey));
	WANT(aclrtNotifyImportByKey(&n, nkey, 0), ACL_ERROR_RT_PARAM_INVALID);
	say("notify unnamed");
	hear("notify wrong");
	WANT(aclrtNotifyImportByKey(&n, nkey, 0), ACL_ERROR_RT_NO_PERMISSION);
	say("notify refused");
	hear("notify named");
	OK(aclrtNotifyImportByKey(&n, nkey, 0));
	SAYS(aclrtWaitAndResetNotify(n, stream, 0), ACL_ERROR_RT_PARAM_INVALID, "belongs to another server");
	aclmdlRI m;
	OK(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
	OK(aclrtMemcpyAsync(again, SMALL, local, SMALL, ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
	OK(aclrtRecordNotify(n, stream));
	OK(aclmdlRICaptureEnd(stream, &m));
	for (int round = 0; round < 50; round++) {
		pattern(host, 100 + round);
		up(local);
		if (round % 2 == 0) {
			OK(aclrtMemcpyAsync(again, SMALL, local, SMALL, ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
			OK(aclrtRecordNotify(n, stream));
		} else {
			OK(aclmdlRIExecuteAsync(m, stream));
		}
		OK(aclrtSynchronizeStream(stream));
		char name[32];
		snprintf(name, sizeof(name), "seen %d", round);
		hear(name);
	}
	OK(aclmdlRIDestroy(m));
	OK(aclrtReduceAsync(again, local, 1024, ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM, ACL_INT32, stream, NULL));
	SAYS(aclrtSynchronizeStream(stream), ACL_ERROR_RT_SYS_DMA, "is memory of another server");
	OK(aclrtRecordNotify(n, stream));
	OK(aclrtSynchronizeStream(stream));
	OK(aclrtNotifyBatchReset(&n, 1));
	OK(aclrtDestroyNotify(n));
	say("reset");

	get("words", wkey, sizeof(wkey));
	OK(aclrtIpcMemImportByKey(&words, wkey, 0));
	for (uint64_t round = 1; round <= 20; round++) {
		OK(aclrtValueWrite(words, round, 0, stream));
		OK(aclrtValueWait((char *)words + 8, round, 0, stream));
		OK(aclrtSynchronizeStream(stream));
	}

	aclrtIpcEventHandle eh;
	aclrtEvent e;
	get("event", &eh, sizeof(eh));
	SAYS(aclrtIpcOpenEventHandle(eh, &e), ACL_ERROR_RT_PARAM_INVALID, "If it is of another server of the pod");
	say("done");
	hear("closed"); /* the owner closes the keys; what is imported stays until it is closed */
	SAYS(aclrtIpcMemImportByKey(&far, key, 0), ACL_ERROR_RT_DRV_INTERNAL_ERROR, "it was closed there");
	pattern(host, 3);
	up(local);
	OK(aclrtMemcpyAsync(again, SMALL, local, SMALL, ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
	OK(aclrtSynchronizeStream(stream));
	OK(aclrtIpcMemClose(key));
	OK(aclrtIpcMemClose(wkey));
	WANT(aclrtIpcMemClose(key), ACL_ERROR_RT_PARAM_INVALID);
	say("gone");
	OK(aclrtFree(local));
}

int main(int argc, char **argv)
{
	const char *server = getenv("ROPEWAY_POD_SERVER");
	if (argc != 3 || server == NULL)
		FAIL("no directory or server");
	dir = argv[2];
	OK(aclInit(NULL));
	OK(aclrtSetDevice(0));
	OK(aclrtCreateStream(&stream));
	OK(aclrtMallocHost((void **)&host, SMALL));
	int first = strcmp(server, "0") == 0;
	meet(first ? "zero" : "one", first ? "one" : "zero");
	(first ? owner : user)();
	OK(aclrtFreeHost(host));
	OK(aclrtDestroyStream(stream));
	OK(aclrtResetDevice(0));
	OK(aclFinalize());
	return 0;
}
