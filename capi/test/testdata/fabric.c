/*
 * Two servers of a pod, and memory of one mapped by the other: every form of copy in both directions (forms), white lists and codes (names), an
 * owner that is killed (killed), release in other orders (orders), captured models (model), a size that is rounded (asked). Started once for each server with ROPEWAY_POD_SERVER; they meet by files in
 * the directory argv[2].
 */
#include "servers.h"

static void *map(aclrtDrvMemHandle h)
{
	void *p;
	OK(aclrtReserveMemAddress(&p, SIZE, 0, NULL, 0));
	OK(aclrtMapMem(p, SIZE, 0, h, 0));
	aclrtMemAccessDesc a = {.flags = ACL_RT_MEM_ACCESS_FLAGS_READWRITE, .location = {.id = 0, .type = ACL_MEM_LOCATION_TYPE_DEVICE}};
	OK(aclrtMemSetAccess(p, SIZE, &a, 1));
	return p;
}

static aclrtDrvMemHandle make(void)
{
	aclrtPhysicalMemProp prop = {
		.handleType = ACL_MEM_HANDLE_TYPE_NONE, .allocationType = ACL_MEM_ALLOCATION_TYPE_PINNED, .memAttr = ACL_HBM_MEM_HUGE,
		.location = {.id = 0, .type = ACL_MEM_LOCATION_TYPE_DEVICE},
	};
	aclrtDrvMemHandle h;
	OK(aclrtMallocPhysical(&h, SIZE, &prop, 0));
	return h;
}

static void export(aclrtDrvMemHandle h, uint64_t flags, aclrtMemFabricHandle *f)
{
	OK(aclrtMemExportToShareableHandleV2(h, flags, ACL_MEM_SHARE_HANDLE_TYPE_FABRIC, f));
}

static aclError import(aclrtMemFabricHandle *f, aclrtDrvMemHandle *h)
{
	return aclrtMemImportFromShareableHandleV2(f, ACL_MEM_SHARE_HANDLE_TYPE_FABRIC, 0, h);
}

static void pattern(int seed)
{
	for (int i = 0; i < SIZE; i++)
		host[i] = (unsigned char)(i * 7 + (i >> 8) + seed);
}

static void same(int seed, size_t n, const char *what)
{
	for (size_t i = 0; i < n; i++)
		if (host[i] != (unsigned char)(i * 7 + (i >> 8) + seed))
			FAIL("%s: byte %zu is %d", what, i, host[i]);
	memset(host, 0, SIZE);
}

/* Writes a pattern to the far memory in one way and reads it back in another. */
static void forms(void *far, void *local)
{
	const aclrtMemcpyKind up = ACL_MEMCPY_HOST_TO_DEVICE, down = ACL_MEMCPY_DEVICE_TO_HOST, in = ACL_MEMCPY_DEVICE_TO_DEVICE;
	pattern(1);
	OK(aclrtMemcpyAsync(far, SIZE, host, SIZE, up, stream));
	OK(aclrtSynchronizeStream(stream));
	memset(host, 0, SIZE);
	OK(aclrtMemcpyAsync(host, SIZE, far, SIZE, down, stream));
	OK(aclrtSynchronizeStream(stream));
	same(1, SIZE, "asynchronous");

	pattern(2);
	OK(aclrtMemcpyAsync(local, SIZE, host, SIZE, up, stream));
	OK(aclrtMemcpyAsync(far, SIZE, local, SIZE, in, stream));
	OK(aclrtMemsetAsync(local, SIZE, 0, SIZE, stream));
	OK(aclrtMemcpyAsync(local, SIZE, far, SIZE, in, stream));
	OK(aclrtSynchronizeStream(stream));
	memset(host, 0, SIZE);
	OK(aclrtMemcpyAsync(host, SIZE, local, SIZE, down, stream));
	OK(aclrtSynchronizeStream(stream));
	same(2, SIZE, "inside the device");

	unsigned char *plain = malloc(SIZE);
	pattern(3);
	memcpy(plain, host, SIZE);
	OK(aclrtMemcpy(far, SIZE, plain, SIZE, up));
	memset(plain, 0, SIZE);
	OK(aclrtMemcpy(plain, SIZE, far, SIZE, down));
	memcpy(host, plain, SIZE);
	free(plain);
	same(3, SIZE, "synchronous");

	pattern(4); /* 1024 rows of 2048 bytes, every other one */
	OK(aclrtMemcpy2dAsync(far, 4096, host, 4096, 2048, 1024, up, stream));
	OK(aclrtMemcpy2dAsync((char *)far + 2048, 4096, host + 2048, 4096, 2048, 1024, up, stream));
	OK(aclrtSynchronizeStream(stream));
	memset(host, 0, SIZE);
	OK(aclrtMemcpy2dAsync(host, 4096, far, 4096, 4096, 1024, down, stream));
	OK(aclrtSynchronizeStream(stream));
	same(4, SIZE, "2-D");

	enum { PIECES = 1024, PIECE = SIZE / PIECES };
	static void *dst[PIECES], *src[PIECES];
	static size_t sizes[PIECES];
	aclrtMemcpyBatchAttr attr = {.dstLoc = {.id = 0, .type = ACL_MEM_LOCATION_TYPE_DEVICE}, .srcLoc = {.type = ACL_MEM_LOCATION_TYPE_HOST}};
	size_t first = 0, failed = 0;
	pattern(5);
	for (int i = 0; i < PIECES; i++) {
		dst[i] = (char *)far + (PIECES - 1 - i) * PIECE;
		src[i] = host + (PIECES - 1 - i) * PIECE;
		sizes[i] = PIECE;
	}
	OK(aclrtMemcpyBatchAsync(dst, sizes, src, sizes, PIECES, &attr, &first, 1, &failed, stream));
	OK(aclrtSynchronizeStream(stream));
	memset(host, 0, SIZE);
	attr = (aclrtMemcpyBatchAttr){.srcLoc = attr.dstLoc, .dstLoc = attr.srcLoc};
	OK(aclrtMemcpyBatchAsync(src, sizes, dst, sizes, PIECES, &attr, &first, 1, &failed, stream));
	OK(aclrtSynchronizeStream(stream));
	same(5, SIZE, "batch");

	size_t n;
	void *desc;
	OK(aclrtGetMemcpyDescSize(ACL_MEMCPY_INNER_DEVICE_TO_DEVICE, &n));
	OK(aclrtMalloc(&desc, n, ACL_MEM_MALLOC_HUGE_FIRST));
	pattern(6);
	OK(aclrtMemcpyAsync(local, SIZE, host, SIZE, up, stream));
	OK(aclrtSynchronizeStream(stream));
	OK(aclrtSetMemcpyDesc(desc, ACL_MEMCPY_INNER_DEVICE_TO_DEVICE, local, far, SIZE, NULL));
	OK(aclrtMemcpyAsyncWithDesc(desc, ACL_MEMCPY_INNER_DEVICE_TO_DEVICE, stream));
	OK(aclrtSynchronizeStream(stream));
	memset(host, 0, SIZE);
	OK(aclrtMemcpyAsync(host, SIZE, far, SIZE, down, stream));
	OK(aclrtSynchronizeStream(stream));
	same(6, SIZE, "descriptor");
	OK(aclrtFree(desc));

	OK(aclrtMemset(far, SIZE, 0x5a, SIZE / 2));
	OK(aclrtMemsetAsync((char *)far + SIZE / 2, SIZE / 2, 0xa5, SIZE / 2, stream));
	OK(aclrtMemcpyAsync(host, SIZE, far, SIZE, down, stream));
	OK(aclrtSynchronizeStream(stream));
	for (int i = 0; i < SIZE; i++)
		if (host[i] != (i < SIZE / 2 ? 0x5a : 0xa5))
			FAIL("fill: byte %d is %d", i, host[i]);
	pattern(7);
	OK(aclrtMemcpyAsync(far, SIZE, host, SIZE, up, stream));
	OK(aclrtSynchronizeStream(stream));
}

/* A model whose copies, fills and events use the far memory: executed with other bytes, changed, and after the memory was given up. */
static void model(void *far, void *local)
{
	enum { HALF = SIZE / 2, ROWS = HALF / 4096 };
	aclrtStream other;
	aclrtEvent forked, joined;
	aclmdlRI m;
	OK(aclrtCreateStream(&other));
	OK(aclrtCreateEventExWithFlag(&forked, ACL_EVENT_SYNC));
	OK(aclrtCreateEventExWithFlag(&joined, ACL_EVENT_SYNC));
	OK(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
	OK(aclrtMemcpyAsync(local, SIZE, host, SIZE, ACL_MEMCPY_HOST_TO_DEVICE, stream));
	OK(aclrtRecordEvent(forked, stream));
	OK(aclrtStreamWaitEvent(other, forked));
	OK(aclrtMemcpyAsync(far, HALF, local, HALF, ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
	OK(aclrtMemcpy2dAsync((char *)far + HALF, 4096, (char *)local + HALF, 4096, 4096, ROWS, ACL_MEMCPY_DEVICE_TO_DEVICE, other));
	OK(aclrtRecordEvent(joined, other));
	OK(aclrtStreamWaitEvent(stream, joined));
	OK(aclrtMemsetAsync(local, SIZE, 0, SIZE, stream)); /* after both have read it */
	OK(aclrtMemcpyAsync(local, SIZE, far, SIZE, ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
	OK(aclrtMemcpyAsync((char *)far + 5, 13, (char *)far + HALF, 13, ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
	OK(aclmdlRICaptureEnd(stream, &m));
	for (int round = 0; round < 3; round++) {
		pattern(10 + round);
		OK(aclmdlRIExecuteAsync(m, stream));
		OK(aclrtSynchronizeStream(stream));
		memset(host, 0, SIZE);
		OK(aclrtMemcpy(host, SIZE, local, SIZE, ACL_MEMCPY_DEVICE_TO_HOST));
		same(10 + round, SIZE, "a model, read back");
		OK(aclrtMemcpy(host, SIZE, far, SIZE, ACL_MEMCPY_DEVICE_TO_HOST));
		if (memcmp(host + 5, host + HALF, 13) != 0)
			FAIL("the last copy of the model was not made");
		OK(aclrtMemcpy(host + 5, 13, (char *)local + 5, 13, ACL_MEMCPY_DEVICE_TO_HOST));
		same(10 + round, SIZE, "a model, there");
	}
	OK(aclmdlRIDestroy(m));

	/* a word of the other server is written last, and read by an event that others look at: a model that keeps its streams */
	aclrtEvent outside;
	OK(aclrtCreateEventWithFlag(&outside, ACL_EVENT_EXTERNAL));
	OK(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
	OK(aclrtMemcpyAsync(far, SIZE, host, SIZE, ACL_MEMCPY_HOST_TO_DEVICE, stream));
	OK(aclrtRecordEvent(outside, stream));
	OK(aclrtMemcpyAsync(local, SIZE, far, SIZE, ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
	OK(aclmdlRICaptureEnd(stream, &m));
	pattern(20);
	OK(aclmdlRIExecuteAsync(m, stream));
	OK(aclrtStreamWaitEvent(other, outside));
	OK(aclrtSynchronizeStream(other));
	OK(aclrtSynchronizeStream(stream));
	memset(host, 0, SIZE);
	OK(aclrtMemcpy(host, SIZE, local, SIZE, ACL_MEMCPY_DEVICE_TO_HOST));
	same(20, SIZE, "a model with an event of others");
	OK(aclmdlRIDestroy(m));
	OK(aclrtDestroyEvent(outside));

	OK(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
	OK(aclrtMemcpyAsync(far, SIZE, host, SIZE, ACL_MEMCPY_HOST_TO_DEVICE, stream));
	OK(aclmdlRICaptureEnd(stream, &m));
	pattern(7);
	OK(aclmdlRIExecuteAsync(m, stream));
	OK(aclrtSynchronizeStream(stream));
	OK(aclrtUnmapMem(far));
	WANT(aclmdlRIExecuteAsync(m, stream), ACL_ERROR_RT_PARAM_INVALID);
	OK(aclmdlRIDestroy(m));
	OK(aclrtDestroyEvent(forked));
	OK(aclrtDestroyEvent(joined));
	OK(aclrtDestroyStream(other));
}

/* An importer maps as many bytes as the owner asked for and maps itself, although the memory has more. */
static void asked(int owner)
{
	enum { ASKED = SIZE - MIB };
	aclrtPhysicalMemProp prop = {.memAttr = ACL_HBM_MEM_HUGE, .location = {.type = ACL_MEM_LOCATION_TYPE_DEVICE}};
	aclrtMemAccessDesc a = {.flags = ACL_RT_MEM_ACCESS_FLAGS_READWRITE, .location = {.type = ACL_MEM_LOCATION_TYPE_DEVICE}};
	aclrtDrvMemHandle h;
	aclrtMemFabricHandle f;
	void *p;
	if (owner) {
		OK(aclrtMallocPhysical(&h, ASKED, &prop, 0));
		export(h, 1, &f);
		put("handle", &f, sizeof(f));
	} else {
		get("handle", &f, sizeof(f));
		OK(import(&f, &h));
	}
	OK(aclrtReserveMemAddress(&p, SIZE, 0, NULL, 0));
	OK(aclrtMapMem(p, ASKED, 0, h, 0));
	OK(aclrtMemSetAccess(p, ASKED, &a, 1));
	OK(aclrtMemset(p, ASKED, 1, ASKED));
	if (owner)
		hear("done");
	OK(aclrtUnmapMem(p));
	OK(aclrtReleaseMemAddress(p));
	OK(aclrtFreePhysical(h));
	if (!owner)
		say("done");
}

static void owner(const char *scene)
{
	if (strcmp(scene, "asked") == 0) {
		asked(1);
		return;
	}
	aclrtDrvMemHandle h = make();
	void *p = map(h);
	aclrtMemFabricHandle f;
	int64_t v;
	OK(aclrtGetDeviceInfo(1, ACL_DEV_ATTR_SUPER_POD_DEVICE_ID, &v));
	if (v != 1)
		FAIL("device 1 of server 0 has number %lld", (long long)v);
	if (strcmp(scene, "names") == 0) {
		int32_t pid;
		export(h, 0, &f);
		put("handle", &f, sizeof(f));
		get("pid", &pid, sizeof(pid));
		OK(aclrtMemSetPidToShareableHandleV2(&f, ACL_MEM_SHARE_HANDLE_TYPE_FABRIC, &pid, 1));
		say("named");
		hear("done");
	} else if (strcmp(scene, "orders") == 0) {
		export(h, 1, &f);
		put("handle", &f, sizeof(f));
		hear("imported");
		pattern(8);
		OK(aclrtMemcpy(p, SIZE, host, SIZE, ACL_MEMCPY_HOST_TO_DEVICE));
		OK(aclrtUnmapMem(p)); /* the owner releases it first; importers keep it */
		OK(aclrtReleaseMemAddress(p));
		OK(aclrtFreePhysical(h));
		say("freed");
		hear("done");
		return;
	} else {
		export(h, 1, &f);
		put("handle", &f, sizeof(f));
		int32_t pid = getpid();
		put("owner", &pid, sizeof(pid));
		hear("done"); /* killed: it does not come */
		OK(aclrtMemcpy(host, SIZE, p, SIZE, ACL_MEMCPY_DEVICE_TO_HOST));
		same(7, SIZE, "what the owner has");
	}
	OK(aclrtUnmapMem(p));
	OK(aclrtReleaseMemAddress(p));
	OK(aclrtFreePhysical(h));
}

static void killed(aclrtMemFabricHandle *f, void *far, aclrtDrvMemHandle h, void *local)
{
	int32_t pid;
	get("owner", &pid, sizeof(pid));
	aclrtStream other;
	OK(aclrtCreateStream(&other));
	pattern(1);
	for (int i = 0; i < 8; i++)
		OK(aclrtMemcpyAsync(far, SIZE, host, SIZE, ACL_MEMCPY_HOST_TO_DEVICE, stream));
	kill(pid, SIGKILL);
	OK(aclrtMemcpyAsync(local, SIZE, host, SIZE, ACL_MEMCPY_HOST_TO_DEVICE, other)); /* goes on */
	OK(aclrtSynchronizeStream(other));
	while (aclrtMemcpyAsync(far, SIZE, host, SIZE, ACL_MEMCPY_HOST_TO_DEVICE, stream) == ACL_SUCCESS)
		if (aclrtSynchronizeStream(stream) == ACL_ERROR_RT_LOST_HEARTBEAT)
			break;
	WANT(aclrtMemcpy(far, 100, host, 100, ACL_MEMCPY_HOST_TO_DEVICE), ACL_ERROR_RT_LOST_HEARTBEAT);
	aclmdlRI m;
	OK(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
	OK(aclrtMemcpyAsync(local, SIZE, far, SIZE, ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
	OK(aclrtMemcpyAsync(far, SIZE, local, SIZE, ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
	OK(aclmdlRICaptureEnd(stream, &m));
	OK(aclmdlRIExecuteAsync(m, stream));
	WANT(aclrtSynchronizeStream(stream), ACL_ERROR_RT_LOST_HEARTBEAT);
	OK(aclmdlRIDestroy(m));
	aclrtDrvMemHandle again;
	WANT(import(f, &again), ACL_ERROR_RT_INVALID_HANDLE);
	OK(aclrtUnmapMem(far));
	OK(aclrtReleaseMemAddress(far));
	WANT(aclrtFreePhysical(h), ACL_ERROR_RT_INVALID_HANDLE);
	WANT(aclrtFreePhysical(h), ACL_ERROR_RT_PARAM_INVALID);
	OK(aclrtDestroyStream(other));
}

static void user(const char *scene)
{
	aclrtMemFabricHandle f, zero = {0};
	aclrtDrvMemHandle h;
	int64_t v;
	OK(aclrtGetDeviceInfo(1, ACL_DEV_ATTR_SUPER_POD_DEVICE_ID, &v));
	if (v != (1 << 22 | 1))
		FAIL("device 1 of server 1 has number %#llx", (long long)v);
	OK(aclrtGetDeviceInfo(0, ACL_DEV_ATTR_SUPER_POD_SERVER_ID, &v));
	if (v != 1)
		FAIL("server 1 has number %lld", (long long)v);
	if (strcmp(scene, "asked") == 0) {
		asked(0);
		return;
	}
	get("handle", &f, sizeof(f));
	if (strcmp(scene, "names") == 0) {
		int32_t pid = getpid();
		WANT(import(&zero, &h), ACL_ERROR_RT_PARAM_INVALID);
		WANT(import(&f, &h), ACL_ERROR_RT_INVALID_HANDLE); /* not named */
		SAYS(aclrtMemSetPidToShareableHandleV2(&f, ACL_MEM_SHARE_HANDLE_TYPE_FABRIC, &pid, 1), ACL_ERROR_RT_DRV_INTERNAL_ERROR,
		     "a process of another server exports it");
		put("pid", &pid, sizeof(pid));
		hear("named");
		OK(import(&f, &h));
		aclrtMemFabricHandle g;
		WANT(aclrtMemExportToShareableHandleV2(h, 1, ACL_MEM_SHARE_HANDLE_TYPE_FABRIC, &g), ACL_ERROR_RT_DRV_INTERNAL_ERROR);
		OK(aclrtFreePhysical(h));
		say("done");
		return;
	}
	OK(import(&f, &h));
	void *far = map(h), *local;
	OK(aclrtMalloc(&local, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
	if (strcmp(scene, "killed") == 0) {
		killed(&f, far, h, local);
		OK(aclrtFree(local));
		return;
	}
	if (strcmp(scene, "orders") == 0) {
		say("imported");
		hear("freed");
		aclrtDrvMemHandle twice;
		OK(import(&f, &twice)); /* it can be imported as long as a process has it */
		OK(aclrtFreePhysical(twice));
		OK(aclrtFreePhysical(h)); /* mapped, so it stays */
		OK(aclrtMemcpy(host, SIZE, far, SIZE, ACL_MEMCPY_DEVICE_TO_HOST));
		same(8, SIZE, "after its owner has freed it");
		OK(aclrtUnmapMem(far));
		while (import(&f, &twice) == ACL_SUCCESS) /* the owner gets to know in the background */
			OK(aclrtFreePhysical(twice));
	} else if (strcmp(scene, "model") == 0) {
		model(far, local);
		OK(aclrtFreePhysical(h));
	} else {
		forms(far, local);
		OK(aclrtUnmapMem(far));
		OK(aclrtFreePhysical(h));
	}
	OK(aclrtReleaseMemAddress(far));
	OK(aclrtFree(local));
	say("done");
}

int main(int argc, char **argv)
{
	const char *server = getenv("ROPEWAY_POD_SERVER");
	if (argc != 3 || server == NULL)
		FAIL("no scene, directory or server");
	dir = argv[2];
	OK(aclInit(NULL));
	OK(aclrtSetDevice(0));
	OK(aclrtCreateStream(&stream));
	OK(aclrtMallocHost((void **)&host, SIZE));
	(strcmp(server, "0") == 0 ? owner : user)(argv[1]);
	OK(aclrtFreeHost(host));
	OK(aclrtDestroyStream(stream));
	OK(aclrtResetDevice(0));
	OK(aclFinalize());
	return 0;
}
