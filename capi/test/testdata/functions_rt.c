/* The layer below the API: runtime/rt.h. ROPEWAY_TEST_KERNELS names the shared object of kernels/functions.c. */
#include "runtime/rt.h"

#include "proof.h"

void functions_rt(void);

static rtDevBinary_t bin;

static void read_binary(void)
{
	FILE *f = fopen(getenv("ROPEWAY_TEST_KERNELS"), "rb");
	CHECK(f && !fseek(f, 0, SEEK_END));
	bin = (rtDevBinary_t){RT_DEV_BINARY_MAGIC_ELF_AIVEC, 0, NULL, (uint64_t)ftell(f)};
	rewind(f);
	void *bytes = malloc(bin.length);
	CHECK(bytes && fread(bytes, 1, bin.length, f) == bin.length);
	bin.data = bytes;
	fclose(f);
}

static void devices(void)
{
	int32_t device = -1, count = 0;
	uint32_t number = 99;
	int64_t value = -1;
	char name[64];
	FUNCTION("rtSetDevice") {
		OK(rtSetDevice(1));
		OK(aclrtGetDevice(&device));
		EFFECT(device == 1);
	}
	FUNCTION("rtGetDevice") {
		device = -1;
		OK(rtGetDevice(&device));
		EFFECT(device == 1);
	}
	FUNCTION("rtDeviceReset") {
		EFFECT(rtDeviceReset(1) == RT_ERROR_NONE);
		OK(rtSetDevice(0));
	}
	FUNCTION("rtGetDeviceCount") {
		OK(rtGetDeviceCount(&count));
		EFFECT(count == 4);
	}
	FUNCTION("rtGetDevicePhyIdByIndex") {
		OK(rtGetDevicePhyIdByIndex(3, &number));
		EFFECT(number == 3);
	}
	FUNCTION("rtGetLogicDevIdByUserDevId") {
		OK(rtGetLogicDevIdByUserDevId(2, &device));
		EFFECT(device == 2);
	}
	FUNCTION("rtDeviceGetBareTgid") {
		OK(rtDeviceGetBareTgid(&number));
		EFFECT(number == (uint32_t)getpid());
	}
	FUNCTION("rtGetDeviceInfo") {
		OK(rtGetDeviceInfo(2, 0, 18, &value));
		EFFECT(value == 2);
		REFUSES("device-unknown", rtGetDeviceInfo(9, 0, 18, &value));
		REFUSES("pair-unknown", rtGetDeviceInfo(0, 0, 1234, &value));
		REFUSES("not-offered", rtGetDeviceInfo(0, 0, 26, &value));
	}
	FUNCTION("rtEnableP2P") {
		int32_t status = 0;
		OK(rtEnableP2P(1, 2, 0));
		OK(aclrtDevicePeerAccessStatus(1, 2, &status));
		EFFECT(status == 1);
		REFUSES("itself", rtEnableP2P(1, 1, 0));
		REFUSES("no-device", rtEnableP2P(1, 4, 0));
	}
	FUNCTION("rtDisableP2P") {
		int32_t status = 1;
		OK(rtDisableP2P(1, 2));
		OK(aclrtDevicePeerAccessStatus(1, 2, &status));
		EFFECT(status == 0);
		REFUSES("no-device", rtDisableP2P(9, 1));
	}
	FUNCTION("rtGetSocVersion") {
		OK(rtGetSocVersion(name, sizeof name));
		EFFECT(strcmp(name, aclrtGetSocName()) == 0);
		REFUSES("maxLen-too-small", rtGetSocVersion(name, (uint32_t)strlen(name)));
	}
	FUNCTION("rtGetAiCoreCount") {
		OK(aclrtGetDeviceInfo(0, ACL_DEV_ATTR_AICORE_CORE_NUM, &value));
		OK(rtGetAiCoreCount(&number));
		EFFECT(number == (uint32_t)value);
	}
	FUNCTION("rtGetAiCpuCount") {
		OK(aclrtGetDeviceInfo(0, ACL_DEV_ATTR_AICPU_CORE_NUM, &value));
		OK(rtGetAiCpuCount(&number));
		EFFECT(number == (uint32_t)value);
	}
}

static void memory(rtStream_t stream)
{
	enum { BYTES = 4096 };
	void *device = NULL, *host = NULL, *opened = NULL;
	char *bytes, name[65];
	int32_t pid = getpid();
	FUNCTION("rtMalloc") {
		OK(rtMalloc(&device, BYTES, RT_MEMORY_HBM, 0));
		EFFECT(aclrtMemset(device, BYTES, 5, BYTES) == ACL_SUCCESS);
	}
	FUNCTION("rtMallocHost") {
		OK(rtMallocHost(&host, BYTES, 0));
		memset(host, 9, BYTES);
		EFFECT(host != NULL);
	}
	bytes = host;
	FUNCTION("rtMemcpy") {
		OK(rtMemcpy(bytes, BYTES, device, BYTES, RT_MEMCPY_DEVICE_TO_HOST));
		EFFECT(bytes[0] == 5 && bytes[BYTES - 1] == 5);
		memset(bytes, 6, BYTES);
		OK(rtMemcpy(device, BYTES, bytes, BYTES, RT_MEMCPY_DEFAULT));
		OK(rtMemcpy(bytes, 0, NULL, 0, (rtMemcpyKind_t)99));
	}
	FUNCTION("rtMemcpyAsync") {
		memset(bytes, 7, BYTES);
		OK(rtMemcpyAsync(device, BYTES, bytes, BYTES, RT_MEMCPY_HOST_TO_DEVICE, stream));
		OK(rtStreamSynchronize(stream));
		memset(bytes, 0, BYTES);
		OK(rtMemcpyAsync(bytes, BYTES, device, BYTES, RT_MEMCPY_DEVICE_TO_HOST_EX, stream));
		OK(rtStreamSynchronize(stream));
		EFFECT(bytes[0] == 7 && bytes[BYTES - 1] == 7);
	}
	FUNCTION("rtMemcpyAsyncWithoutCheckKind") {
		memset(bytes, 0, BYTES);
		OK(rtMemcpyAsyncWithoutCheckKind(bytes, BYTES, device, BYTES, 99, stream));
		OK(rtStreamSynchronize(stream));
		EFFECT(bytes[0] == 7);
	}
	FUNCTION("rtGetTaskIdAndStreamID") {
		uint32_t task = 0, queue = 99, last;
		int32_t id;
		OK(aclrtGetThreadLastTaskId(&last));
		OK(aclrtStreamGetId(stream, &id));
		OK(rtGetTaskIdAndStreamID(&task, &queue));
		EFFECT(task == last && queue == (uint32_t)id);
	}
	FUNCTION("rtIpcSetMemoryName") {
		memset(name, 0, sizeof name);
		OK(rtIpcSetMemoryName(device, BYTES, name, sizeof name));
		EFFECT(strlen(name) > 0 && strlen(name) < sizeof name);
	}
	FUNCTION("rtSetIpcMemPid")
		EFFECT(rtSetIpcMemPid(name, &pid, 1) == RT_ERROR_NONE);
	FUNCTION("rtSetIpcMemorySuperPodPid")
		EFFECT(rtSetIpcMemorySuperPodPid(name, 0, &pid, 1) == RT_ERROR_NONE);
	FUNCTION("rtIpcOpenMemory") /* older.c opens that of another process */
		EFFECT(rtIpcOpenMemory(&opened, "none") == ACL_ERROR_RT_PARAM_INVALID);
	FUNCTION("rtIpcCloseMemory") {
		EFFECT(rtIpcCloseMemory(device) == ACL_ERROR_RT_PARAM_INVALID);
		REFUSES("no-import", rtIpcCloseMemory(device));
	}
	FUNCTION("rtIpcDestroyMemoryName") {
		OK(rtIpcDestroyMemoryName(name));
		EFFECT(rtIpcDestroyMemoryName(name) == ACL_ERROR_RT_PARAM_INVALID);
	}
	FUNCTION("rtFreeHost") {
		OK(rtFreeHost(host));
		EFFECT(rtFreeHost(host) == ACL_ERROR_RT_PARAM_INVALID);
	}
	FUNCTION("rtFree") {
		OK(rtFree(device));
		EFFECT(rtFree(device) == ACL_ERROR_RT_PARAM_INVALID);
	}
}

static void streams(rtStream_t stream)
{
	rtNotify_t notify = NULL;
	uint32_t first = 0, second = 1, third = 2;
	uint64_t offset = 1;
	FUNCTION("rtStreamGetSqid") {
		OK(rtStreamGetSqid(stream, &first));
		OK(rtStreamGetSqid(NULL, &second));
		EFFECT(first != second);
	}
	FUNCTION("rtStreamGetCqid") {
		OK(rtStreamGetCqid(stream, &second, &third));
		EFFECT(first == second && second == third);
	}
	FUNCTION("rtNotifyCreate") {
		OK(rtNotifyCreate(0, &notify));
		EFFECT(notify != NULL);
	}
	FUNCTION("rtNotifyGetAddrOffset") {
		OK(aclrtGetNotifyId(notify, &first));
		OK(rtNotifyGetAddrOffset(notify, &offset));
		EFFECT(offset == 8 * (uint64_t)first);
	}
	FUNCTION("rtNotifyWait") {
		OK(rtNotifyWait(notify, stream));
		aclrtStreamStatus status;
		OK(aclrtStreamQuery(stream, &status));
		EFFECT(status == ACL_STREAM_STATUS_NOT_READY);
	}
	FUNCTION("rtNotifyRecord") {
		OK(rtNotifyRecord(notify, NULL));
		EFFECT(rtStreamSynchronize(stream) == RT_ERROR_NONE);
	}
	FUNCTION("rtNotifyDestroy") {
		OK(rtNotifyDestroy(notify));
		EFFECT(rtNotifyDestroy(notify) == ACL_ERROR_RT_INVALID_HANDLE);
	}
}

static uint32_t word(const void *p)
{
	uint32_t n = 0;
	OK(aclrtSynchronizeDevice());
	OK(rtMemcpy(&n, sizeof n, p, sizeof n, RT_MEMCPY_DEVICE_TO_HOST));
	return n;
}

static void kernels(rtStream_t stream)
{
	static char key, other, variable[4], symbol;
	void *binary = NULL, *all = NULL, *cpu = NULL, *f = NULL, *p = NULL;
	uint64_t addr = 0;
	uint32_t length = 0;
	OK(rtMalloc(&p, 64, RT_MEMORY_HBM, 0));
	OK(aclrtMemset(p, 64, 0, 64));
	struct {
		void *p;
		uint64_t v;
	} args = {p, 5};
	struct {
		void *x, *y;
		uint64_t n;
	} sum = {p, (char *)p + 32, 1};
	rtArgsEx_t info = {.args = &args, .argsSize = sizeof args}, sums = {.args = &sum, .argsSize = sizeof sum};
	FUNCTION("rtGetC2cCtrlAddr") {
		OK(rtGetC2cCtrlAddr(&addr, &length));
		EFFECT(addr != 0 && length == 4096);
		REFUSES("addr-null", rtGetC2cCtrlAddr(NULL, &length));
	}
	FUNCTION("rtDevBinaryRegister") {
		OK(rtDevBinaryRegister(&bin, &binary));
		EFFECT(binary != NULL);
		REFUSES("magic-unknown", rtDevBinaryRegister(&(rtDevBinary_t){1, 0, bin.data, bin.length}, &all));
		REFUSES("not-read", rtDevBinaryRegister(&(rtDevBinary_t){bin.magic, 0, bin.data, 10}, &all));
	}
	FUNCTION("rtFunctionRegister") {
		EFFECT(rtFunctionRegister(binary, &key, "put", "put", 0) == RT_ERROR_NONE);
		REFUSES("key-taken", rtFunctionRegister(binary, &key, "put", "put", 0));
		REFUSES("no-such-kernel", rtFunctionRegister(binary, &other, "put", "puts", 0));
	}
	FUNCTION("rtKernelLaunch") {
		OK(rtKernelLaunch(&key, 2, &args, sizeof args, NULL, stream));
		EFFECT(word(p) == 10);
		REFUSES("no-kernel", rtKernelLaunch(&other, 2, &args, sizeof args, NULL, stream));
	}
	FUNCTION("rtKernelLaunchWithFlagV2") {
		rtTaskCfgInfo_t cfg = {.schemMode = 1};
		OK(rtKernelLaunchWithFlagV2(&key, 1, &info, NULL, stream, 0, &cfg));
		EFFECT(word(p) == 15);
		REFUSES("schemMode-over-2", rtKernelLaunchWithFlagV2(&key, 1, &info, NULL, stream, 0, &(rtTaskCfgInfo_t){.schemMode = 3}));
		REFUSES("args-wrong", rtKernelLaunchWithFlagV2(&key, 1, &(rtArgsEx_t){.args = &args}, NULL, stream, 0, NULL));
	}
	FUNCTION("rtRegisterAllKernel") {
		OK(rtRegisterAllKernel(&bin, &all));
		EFFECT(all != NULL && all != binary);
		REFUSES("magic-not-elf", rtRegisterAllKernel(&(rtDevBinary_t){2, 0, bin.data, bin.length}, &all));
	}
	FUNCTION("rtKernelLaunchWithHandleV2") {
		OK(rtKernelLaunchWithHandleV2(all, 7, 1, &sums, NULL, stream, NULL));
		EFFECT(word((char *)p + 32) == 15);
		REFUSES("no-such-number", rtKernelLaunchWithHandleV2(all, 123, 1, &sums, NULL, stream, NULL));
	}
	FUNCTION("rtRegisterFuncSymbol") {
		OK(rtRegisterFuncSymbol(all, &symbol, "put", NULL));
		EFFECT(aclrtGetFuncBySymbol(&symbol, &f) == ACL_SUCCESS);
		REFUSES("no-such-kernel", rtRegisterFuncSymbol(all, &symbol, "puts", NULL));
	}
	FUNCTION("rtRegisterVariable") {
		OK(rtRegisterVariable(all, variable, "scale", sizeof variable, 0, NULL));
		uint32_t scale = 0;
		OK(aclrtMemcpyFromSymbol(&scale, sizeof scale, variable, sizeof scale, 0, ACL_MEMCPY_DEVICE_TO_HOST));
		EFFECT(scale == 3);
		REFUSES("no-such-variable", rtRegisterVariable(all, variable, "none", sizeof variable, 0, NULL));
	}
	FUNCTION("rtsLaunchCpuKernel") {
		aclrtBinaryLoadOption mode = {.type = ACL_RT_BINARY_LOAD_OPT_CPU_KERNEL_MODE, .value.cpuKernelMode = 2};
		aclrtBinaryLoadOptions options = {&mode, 1};
		rtCpuKernelArgs_t cpu_args = {.baseArgs = {.args = &p, .argsSize = sizeof p}};
		OK(aclrtBinaryLoadFromData(bin.data, bin.length, &options, &cpu));
		OK(aclrtRegisterCpuFunc(cpu, "cpu_double", "double", &f));
		OK(rtsLaunchCpuKernel(f, 1, stream, NULL, &cpu_args));
		EFFECT(word(p) == 30);
		REFUSES("numBlocks-0", rtsLaunchCpuKernel(f, 0, stream, NULL, &cpu_args));
		OK(aclrtBinaryUnLoad(cpu));
	}
	FUNCTION("rtDevBinaryUnRegister") {
		OK(rtDevBinaryUnRegister(binary));
		OK(rtDevBinaryUnRegister(all));
		EFFECT(rtKernelLaunch(&key, 1, &args, sizeof args, NULL, stream) == ACL_ERROR_RT_INTERNAL_ERROR);
		REFUSES("hdl-null", rtDevBinaryUnRegister(NULL));
	}
	OK(rtFree(p));
}

void functions_rt(void)
{
	rtStream_t stream = NULL;
	read_binary();
	devices();
	FUNCTION("rtStreamCreate") {
		OK(rtStreamCreate(&stream, 99));
		EFFECT(stream != NULL);
	}
	memory(stream);
	streams(stream);
	kernels(stream);
	FUNCTION("rtStreamSynchronize")
		EFFECT(rtStreamSynchronize(stream) == RT_ERROR_NONE);
	FUNCTION("rtStreamDestroy") {
		OK(rtStreamDestroy(stream));
		EFFECT(rtStreamDestroy(stream) == ACL_ERROR_RT_INVALID_HANDLE);
	}
	OK(rtDeviceReset(0));
}
