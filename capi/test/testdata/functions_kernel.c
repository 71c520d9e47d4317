/* Group kernel: binaries, functions, arguments and launches. ROPEWAY_TEST_KERNELS names the shared object of kernels/functions.c. */
#include "proof.h"
#include "ropeway/kernel.h"
#include "runtime/kernel.h"

void functions_kernels(void);
void functions_simt(void);

static aclrtBinHandle binary;
static unsigned char *image;
static size_t image_size;

/* The first word of device memory. */
static uint32_t number(const void *p)
{
	uint32_t n;
	OK(aclrtSynchronizeDevice());
	OK(aclrtMemcpy(&n, sizeof n, p, sizeof n, ACL_MEMCPY_DEVICE_TO_HOST));
	return n;
}

/* Device memory whose first word is n. */
static uint32_t *holding(uint32_t n)
{
	static void *p;
	if (!p)
		OK(aclrtMalloc(&p, 4096, ACL_MEM_MALLOC_HUGE_FIRST));
	OK(aclrtMemcpy(p, 4096, &n, sizeof n, ACL_MEMCPY_HOST_TO_DEVICE));
	return p;
}

static const char *path(void)
{
	const char *p = getenv("ROPEWAY_TEST_KERNELS");
	CHECK(p);
	return p;
}

static aclrtFuncHandle kernel(const char *name)
{
	aclrtFuncHandle f = NULL;
	OK(aclrtBinaryGetFunction(binary, name, &f));
	return f;
}

static void read_image(void)
{
	FILE *f = fopen(path(), "rb");
	CHECK(f && !fseek(f, 0, SEEK_END));
	image_size = (size_t)ftell(f);
	rewind(f);
	image = malloc(image_size);
	CHECK(image && fread(image, 1, image_size, f) == image_size);
	fclose(f);
}

static void loads(void)
{
	aclrtBinHandle other = NULL;
	aclrtBinary object = NULL;
	FUNCTION("aclrtBinaryLoadFromFile") {
		OK(aclrtBinaryLoadFromFile(path(), NULL, &other));
		EFFECT(other != NULL);
		REFUSES("binPath-null", aclrtBinaryLoadFromFile(NULL, NULL, &other));
	}
	FUNCTION("aclrtBinaryUnLoad") {
		OK(aclrtBinaryUnLoad(other));
		EFFECT(aclrtBinaryUnLoad(other) == ACL_ERROR_RT_INVALID_HANDLE);
		REFUSES("binHandle-not-live", aclrtBinaryUnLoad(other));
	}
	FUNCTION("aclrtBinaryLoadFromData") {
		OK(aclrtBinaryLoadFromData(image, image_size, NULL, &binary));
		EFFECT(binary != NULL);
		REFUSES("length-0", aclrtBinaryLoadFromData(image, 0, NULL, &other));
	}
	FUNCTION("aclrtCreateBinary") {
		object = aclrtCreateBinary(image, image_size);
		EFFECT(object != NULL);
		EDGE(aclrtCreateBinary(NULL, 1) == NULL);
	}
	FUNCTION("aclrtBinaryLoad") {
		OK(aclrtBinaryLoad(object, &other));
		EFFECT(other != NULL);
		REFUSES("binary-null", aclrtBinaryLoad(NULL, &other));
	}
	OK(aclrtBinaryUnLoad(other));
	FUNCTION("aclrtDestroyBinary") {
		OK(aclrtDestroyBinary(object));
		EFFECT(aclrtDestroyBinary(object) != ACL_SUCCESS);
		REFUSES("binary-null", aclrtDestroyBinary(NULL));
	}
}

static void lookups(void)
{
	aclrtFuncHandle f = NULL, g = NULL;
	static const char symbol, other;
	static uint32_t variable;
	FUNCTION("aclrtBinaryGetFunction") {
		OK(aclrtBinaryGetFunction(binary, "add_7", &f));
		EFFECT(f != NULL);
		REFUSES("no-kernel", aclrtBinaryGetFunction(binary, "none", &g));
	}
	FUNCTION("aclrtBinaryGetFunctionByEntry") {
		OK(aclrtBinaryGetFunctionByEntry(binary, 7, &g));
		EFFECT(g == f);
		REFUSES("no-kernel", aclrtBinaryGetFunctionByEntry(binary, 8, &g));
	}
	uint32_t kernels = 0;
	FUNCTION("aclrtBinaryGetFunctionCount") {
		OK(aclrtBinaryGetFunctionCount(binary, &kernels));
		EFFECT(kernels > 1);
		REFUSES("count-null", aclrtBinaryGetFunctionCount(binary, NULL));
	}
	FUNCTION("aclrtBinaryEnumerateFunctions") {
		aclrtFuncHandle all[64] = {NULL};
		OK(aclrtBinaryEnumerateFunctions(binary, all, 64));
		int found = 0;
		for (int i = 0; i < 64; i++)
			found += all[i] == f;
		EFFECT(found == 1 && kernels < 64 && all[kernels - 1] && !all[kernels]);
		REFUSES("funcHandles-null", aclrtBinaryEnumerateFunctions(binary, NULL, 64));
	}
	FUNCTION("aclrtBinaryGetDevAddress") {
		void *at = NULL;
		size_t size = 0;
		OK(aclrtBinaryGetDevAddress(binary, &at, &size));
		EFFECT(at && size);
		REFUSES("binAddr-null", aclrtBinaryGetDevAddress(binary, NULL, &size));
	}
	FUNCTION("aclrtBinaryGetGlobal") {
		void *at = NULL;
		size_t size = 0;
		OK(aclrtBinaryGetGlobal(binary, "scale", &at, &size));
		EFFECT(size == 4 && number(at) == 3);
		REFUSES("no-variable", aclrtBinaryGetGlobal(binary, "none", &at, &size));
	}
	FUNCTION("aclrtGetFuncBySymbol") {
		CHECK(rtRegisterFuncSymbol(binary, &symbol, "times", NULL) == 0);
		CHECK(rtRegisterFuncSymbol(binary, &other, "none", NULL) == ACL_ERROR_RT_PARAM_INVALID);
		OK(aclrtGetFuncBySymbol(&symbol, &g));
		EFFECT(g == kernel("times"));
		REFUSES("symbol-unknown", aclrtGetFuncBySymbol(&other, &g));
	}
	FUNCTION("aclrtRegisterCpuFunc") {
		aclrtBinaryLoadOption mode = {.type = ACL_RT_BINARY_LOAD_OPT_CPU_KERNEL_MODE, .value.cpuKernelMode = 2};
		aclrtBinaryLoadOptions options = {&mode, 1};
		aclrtBinHandle cpu;
		uint32_t *p = holding(5);
		OK(aclrtBinaryLoadFromData(image, image_size, &options, &cpu));
		OK(aclrtRegisterCpuFunc(cpu, "cpu_double", "Double", &g));
		OK(aclrtLaunchKernelWithHostArgs(g, 1, scene.stream, NULL, &p, sizeof p, NULL, 0));
		EFFECT(number(p) == 10);
		OK(aclrtBinaryUnLoad(cpu));
		REFUSES("not-cpu-binary", aclrtRegisterCpuFunc(binary, "times", "times", &g));
		OK(aclrtGetFuncBySymbol(&symbol, &g));
	}
	uint32_t was = 0, ten = 10, three = 3;
	CHECK(rtRegisterVariable(binary, &variable, "scale", sizeof variable, 0, NULL) == 0);
	OK(aclrtMemcpyFromSymbol(&was, sizeof was, &variable, sizeof was, 0, ACL_MEMCPY_DEVICE_TO_HOST));
	CHECK(was == 3);
	OK(aclrtMemcpyToSymbol(&variable, &ten, sizeof ten, 0, ACL_MEMCPY_HOST_TO_DEVICE));
	struct {
		uint32_t *p;
		uint64_t n;
	} args = {holding(4), 1};
	OK(aclrtLaunchKernelWithHostArgs(g, 1, scene.stream, NULL, &args, sizeof args, NULL, 0));
	CHECK(number(args.p) == 40);
	OK(aclrtMemcpyToSymbol(&variable, &three, sizeof three, 0, ACL_MEMCPY_HOST_TO_DEVICE));
}

static void about(void)
{
	aclrtFuncHandle f = kernel("times"), p = kernel("put");
	FUNCTION("aclrtGetFunctionAddr") {
		void *aic = NULL, *aiv = &aic;
		OK(aclrtGetFunctionAddr(f, &aic, &aiv));
		EFFECT(aic && !aiv);
		REFUSES("aicAddr-null", aclrtGetFunctionAddr(f, NULL, &aiv));
	}
	FUNCTION("aclrtGetFunctionSize") {
		size_t aic = 0, aiv = 9;
		OK(aclrtGetFunctionSize(f, &aic, &aiv));
		EFFECT(aic > 0 && aiv == 0);
		REFUSES("aicSize-null", aclrtGetFunctionSize(f, NULL, &aiv));
	}
	FUNCTION("aclrtGetFunctionName") {
		char name[8] = "";
		OK(aclrtGetFunctionName(f, sizeof name, name));
		EFFECT(strcmp(name, "times") == 0);
		REFUSES("maxLen-too-small", aclrtGetFunctionName(f, 5, name));
	}
	FUNCTION("aclrtGetFunctionAttribute") {
		int64_t kind = -1;
		OK(aclrtGetFunctionAttribute(f, ACL_FUNC_ATTR_KERNEL_TYPE, &kind));
		EFFECT(kind == ACL_KERNEL_TYPE_CUBE);
		REFUSES("attrType-outside-1-to-3", aclrtGetFunctionAttribute(f, (aclrtFuncAttribute)4, &kind));
	}
	FUNCTION("aclrtFunctionGetBinary") {
		aclrtBinHandle of = NULL;
		OK(aclrtFunctionGetBinary(f, &of));
		EFFECT(of == binary);
		REFUSES("binHandle-null", aclrtFunctionGetBinary(f, NULL));
	}
	FUNCTION("aclrtFunctionGetParamCount") {
		size_t n = 0;
		OK(aclrtFunctionGetParamCount(p, &n));
		EFFECT(n == 2);
		REFUSES("no-parameter-data", aclrtFunctionGetParamCount(f, &n));
	}
	FUNCTION("aclrtFunctionGetParamInfo") {
		size_t at = 0, size = 0;
		OK(aclrtFunctionGetParamInfo(p, 1, &at, &size));
		EFFECT(at == 8 && size == 4);
		REFUSES("index-over-parameters", aclrtFunctionGetParamInfo(p, 2, &at, &size));
	}
	FUNCTION("aclrtFunctionGetAvailDynUbufPerBlock") {
		size_t n = 0;
		OK(aclrtFunctionGetAvailDynUbufPerBlock(p, 0, &n));
		EFFECT(n == 229376);
		REFUSES("flags-not-0", aclrtFunctionGetAvailDynUbufPerBlock(p, 1, &n));
	}
	FUNCTION("aclrtGetHardwareSyncAddr") {
		void *at = NULL;
		OK(aclrtGetHardwareSyncAddr(&at));
		EFFECT(at != NULL);
		REFUSES("addr-null", aclrtGetHardwareSyncAddr(NULL));
	}
	FUNCTION("aclrtCheckArchCompatibility") {
		int32_t can = 9;
		OK(aclrtCheckArchCompatibility("Ascend910B1", &can));
		EFFECT(can == 1);
		REFUSES("socVersion-empty", aclrtCheckArchCompatibility("", &can));
	}
}

static void builder(void)
{
	aclrtFuncHandle f = kernel("tiled"), t = kernel("times");
	aclrtArgsHandle a = NULL;
	aclrtParamHandle p = NULL, hole = NULL;
	uint32_t *at = holding(0), *room = NULL;
	FUNCTION("aclrtKernelArgsInit") {
		OK(aclrtKernelArgsInit(f, &a));
		EFFECT(a != NULL);
		REFUSES("argsHandle-null", aclrtKernelArgsInit(f, NULL));
	}
	FUNCTION("aclrtKernelArgsAppend") {
		OK(aclrtKernelArgsAppend(a, &at, sizeof at, &p));
		EFFECT(p != NULL);
		REFUSES("paramSize-0", aclrtKernelArgsAppend(a, &at, 0, &p));
	}
	FUNCTION("aclrtKernelArgsAppendPlaceHolder") {
		OK(aclrtKernelArgsAppendPlaceHolder(a, &hole));
		EFFECT(hole != NULL);
		REFUSES("paramHandle-null", aclrtKernelArgsAppendPlaceHolder(a, NULL));
	}
	FUNCTION("aclrtKernelArgsGetPlaceHolderBuffer") {
		OK(aclrtKernelArgsGetPlaceHolderBuffer(a, hole, 8, (void **)&room));
		EFFECT(room != NULL);
		REFUSES("not-a-placeholder", aclrtKernelArgsGetPlaceHolderBuffer(a, p, 8, (void **)&room));
	}
	room[0] = 20, room[1] = 22;
	FUNCTION("aclrtKernelArgsFinalize") {
		OK(aclrtKernelArgsFinalize(a));
		EFFECT(aclrtKernelArgsAppend(a, &at, sizeof at, &p) == ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
		REFUSES("argsHandle-null", aclrtKernelArgsFinalize(NULL));
	}
	FUNCTION("aclrtLaunchKernelWithConfig") {
		OK(aclrtLaunchKernelWithConfig(f, 1, scene.stream, NULL, a, NULL));
		EFFECT(number(at) == 42);
		REFUSES("reserve-not-null", aclrtLaunchKernelWithConfig(f, 1, scene.stream, NULL, a, &at));
	}
	FUNCTION("aclrtKernelArgsParaUpdate") {
		uint32_t *elsewhere = at + 16;
		OK(aclrtKernelArgsParaUpdate(a, p, &elsewhere, sizeof elsewhere));
		OK(aclrtKernelArgsFinalize(a));
		OK(aclrtLaunchKernelWithConfig(f, 1, scene.stream, NULL, a, NULL));
		EFFECT(number(elsewhere) == 42);
		REFUSES("paramSize-changed", aclrtKernelArgsParaUpdate(a, p, &elsewhere, 4));
	}
	size_t need = 0, handle = 0;
	FUNCTION("aclrtKernelArgsGetMemSize") {
		OK(aclrtKernelArgsGetMemSize(t, 16, &need));
		EFFECT(need == 16 + 64 + 8 * 128);
		REFUSES("actualArgsSize-null", aclrtKernelArgsGetMemSize(t, 16, NULL));
	}
	FUNCTION("aclrtKernelArgsGetHandleMemSize") {
		OK(aclrtKernelArgsGetHandleMemSize(t, &handle));
		EFFECT(handle == 6240);
		REFUSES("memSize-null", aclrtKernelArgsGetHandleMemSize(t, NULL));
	}
	FUNCTION("aclrtKernelArgsInitByUserMem") {
		void *buffer = malloc(need), *own = malloc(handle);
		uint64_t one = 1;
		at = holding(5);
		OK(aclrtKernelArgsInitByUserMem(t, own, buffer, need));
		OK(aclrtKernelArgsAppend(own, &at, sizeof at, &p));
		OK(aclrtKernelArgsAppend(own, &one, sizeof one, &p));
		OK(aclrtKernelArgsFinalize(own));
		OK(aclrtLaunchKernelWithConfig(t, 1, scene.stream, NULL, own, NULL));
		EFFECT(number(at) == 15);
		REFUSES("actualArgsSize-0", aclrtKernelArgsInitByUserMem(t, own, buffer, 0));
		free(buffer);
		free(own);
	}
}

static int failed_code;
static aclrtFuncHandle failed_kernel;

static void failed(aclrtExceptionInfo *info, void *data)
{
	CHECK(data == &failed_code);
	failed_code = (int)aclrtGetErrorCodeFromExceptionInfo(info);
	OK(aclrtGetFuncHandleFromExceptionInfo(info, &failed_kernel));
}

static void launches(void)
{
	aclrtFuncHandle f = kernel("times");
	struct {
		uint32_t *p;
		uint64_t n;
	} args = {holding(2), 1};
	void *device = (char *)args.p + 1024;
	OK(aclrtMemcpy(device, sizeof args, &args, sizeof args, ACL_MEMCPY_HOST_TO_DEVICE));
	FUNCTION("aclrtLaunchKernel") {
		OK(aclrtLaunchKernel(f, 1, device, sizeof args, scene.stream));
		EFFECT(number(args.p) == 6);
		REFUSES("numBlocks-0", aclrtLaunchKernel(f, 0, device, sizeof args, scene.stream));
	}
	FUNCTION("aclrtLaunchKernelV2") {
		aclrtLaunchKernelAttr mode = {.id = ACL_RT_LAUNCH_KERNEL_ATTR_SCHEM_MODE, .value = {.schemMode = 1}};
		aclrtLaunchKernelCfg cfg = {&mode, 1};
		OK(aclrtLaunchKernelV2(f, 1, device, sizeof args, &cfg, scene.stream));
		EFFECT(number(args.p) == 18);
		mode.value.schemMode = 2;
		REFUSES("schem-mode", aclrtLaunchKernelV2(f, 1, device, sizeof args, &cfg, scene.stream));
	}
	FUNCTION("aclrtLaunchKernelWithHostArgs") {
		OK(aclrtLaunchKernelWithHostArgs(f, 1, scene.stream, NULL, &args, sizeof args, NULL, 0));
		EFFECT(number(args.p) == 54);
		REFUSES("placeHolderArray-null", aclrtLaunchKernelWithHostArgs(f, 1, scene.stream, NULL, &args, sizeof args, NULL, 1));
	}
	FUNCTION("aclmdlRIKernelTaskGetAttribute") {
		aclrtLaunchKernelAttr mode = {.id = ACL_RT_LAUNCH_KERNEL_ATTR_SCHEM_MODE, .value = {.schemMode = 1}};
		aclrtLaunchKernelCfg cfg = {&mode, 1};
		aclrtLaunchKernelAttrValue got = {0};
		aclmdlRI m;
		aclrtStream inner;
		aclmdlRITask task;
		uint32_t one = 1;
		OK(aclmdlRICaptureBegin(scene.stream, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
		OK(aclrtLaunchKernelV2(f, 1, device, sizeof args, &cfg, scene.stream));
		OK(aclmdlRICaptureEnd(scene.stream, &m));
		OK(aclmdlRIGetStreams(m, &inner, &one));
		OK(aclmdlRIGetTasksByStream(inner, &task, &one));
		OK(aclmdlRIKernelTaskGetAttribute(task, ACL_RT_LAUNCH_KERNEL_ATTR_SCHEM_MODE, &got));
		EFFECT(got.schemMode == 1);
		REFUSES("attribute-unknown", aclmdlRIKernelTaskGetAttribute(task, ACL_RT_LAUNCH_KERNEL_ATTR_ENGINE_TYPE, &got));
		OK(aclmdlRIDestroy(m));
	}
	FUNCTION("aclrtLaunchKernelWithArgsArray") {
		uint32_t *p = holding(1), v = 6;
		void *list[] = {&p, &v};
		OK(aclrtLaunchKernelWithArgsArray(kernel("put"), 7, scene.stream, NULL, list));
		EFFECT(number(p) == 43);
		REFUSES("no-parameter-data", aclrtLaunchKernelWithArgsArray(f, 1, scene.stream, NULL, list));
	}
	FUNCTION("aclrtBinarySetExceptionCallback") {
		uint64_t nowhere = 64;
		OK(aclrtBinarySetExceptionCallback(binary, failed, &failed_code));
		OK(aclrtLaunchKernelWithHostArgs(kernel("wild"), 1, scene.stream, NULL, &nowhere, sizeof nowhere, NULL, 0));
		CHECK(aclrtSynchronizeStream(scene.stream) == ACL_ERROR_RT_AICORE_EXCEPTION);
		EFFECT(failed_code == ACL_ERROR_RT_AICORE_EXCEPTION && failed_kernel == kernel("wild"));
		REFUSES("callback-null", aclrtBinarySetExceptionCallback(binary, NULL, NULL));
	}
}

/* A function of the program: adds its data and the number of blocks to a word of device memory; fails if data is NULL. */
static int add_all(const ropeway_block *block, void *data)
{
	uint32_t *word = *(uint32_t *const *)block->args;
	if (!data || block->size != 8 || block->idx >= block->num)
		return 1;
	__atomic_fetch_add(word, *(uint32_t *)data + block->num, __ATOMIC_RELAXED);
	return 0;
}

/* ropeway_load_functions: functions of the program are kernels. */
static void own_functions(void)
{
	uint32_t by = 7, *word = holding(1);
	const ropeway_function list[] = {{"adds", add_all, &by}, {"fails", add_all, NULL}};
	aclrtBinHandle own = NULL;
	aclrtFuncHandle f = NULL;
	OK(ropeway_load_functions(list, 2, &own));
	OK(aclrtBinaryGetFunction(own, "adds", &f));
	OK(aclrtLaunchKernelWithHostArgs(f, 3, NULL, NULL, &word, sizeof word, NULL, 0));
	CHECK(number(word) == 1 + 3 * (7 + 3));
	OK(aclrtBinaryGetFunction(own, "fails", &f));
	OK(aclrtLaunchKernelWithHostArgs(f, 1, NULL, NULL, &word, sizeof word, NULL, 0));
	CHECK(aclrtSynchronizeStream(NULL) == ACL_ERROR_RT_AICORE_TRAP_EXCEPTION);
	OK(aclrtBinaryUnLoad(own));
	CHECK(ropeway_load_functions(NULL, 1, &own) == ACL_ERROR_RT_PARAM_INVALID);
	CHECK(ropeway_load_functions(list, 0, &own) == ACL_ERROR_RT_PARAM_INVALID);
	CHECK(ropeway_load_functions(list, 1, NULL) == ACL_ERROR_INVALID_PARAM);
	CHECK(ropeway_load_functions(&(ropeway_function){NULL, add_all, NULL}, 1, &own) == ACL_ERROR_RT_PARAM_INVALID);
	const ropeway_function twice[] = {{"adds", add_all, &by}, {"fails", add_all, NULL}, {"adds", add_all, NULL}};
	CHECK(ropeway_load_functions(twice, 3, &own) == ACL_ERROR_RT_PARAM_INVALID);
}

void functions_kernels(void)
{
	read_image();
	loads();
	lookups();
	about();
	builder();
	launches();
	own_functions();
	OK(aclrtBinaryUnLoad(binary));
	free(image);
}

/* What only the 950 has. */
void functions_simt(void)
{
	read_image();
	OK(aclrtBinaryLoadFromData(image, image_size, NULL, &binary));
	aclrtFuncHandle f = kernel("put");
	uint32_t *p = holding(0), v = 1;
	void *list[] = {&p, &v};
	dim3 grid = {2, 1, 1}, block = {3, 2, 1}, none = {0, 1, 1};
	FUNCTION("aclrtLaunchSIMTKernelWithArgsArray") {
		OK(aclrtLaunchSIMTKernelWithArgsArray(f, grid, block, 0, scene.stream, NULL, list));
		EFFECT(number(p) == 12);
		REFUSES("grid-0", aclrtLaunchSIMTKernelWithArgsArray(f, none, block, 0, scene.stream, NULL, list));
	}
	FUNCTION("aclrtLaunchSIMTKernelWithHostArgs") {
		struct {
			uint32_t *p;
			uint32_t v;
		} args = {p, 5};
		OK(aclrtLaunchSIMTKernelWithHostArgs(f, grid, block, 0, scene.stream, NULL, &args, 12, NULL, 0));
		EFFECT(number(p) == 72);
		REFUSES("argsSize-0", aclrtLaunchSIMTKernelWithHostArgs(f, grid, block, 0, scene.stream, NULL, &args, 0, NULL, 0));
	}
	OK(aclrtBinaryUnLoad(binary));
	free(image);
}
