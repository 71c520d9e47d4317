/* Groups misc and datatype. */
#include <glob.h>
#include <math.h>
#include "proof.h"

void functions_misc(void);

/* Whether a line of the log that ASCEND_PROCESS_LOG_PATH asked for holds a text. */
static bool logged(const char *text)
{
	char pattern[4096];
	const char *dir = getenv("ASCEND_PROCESS_LOG_PATH");
	CHECK(dir != NULL);
	snprintf(pattern, sizeof pattern, "%s/debug/plog/plog-%d_*.log", dir, (int)getpid());
	glob_t found;
	bool there = false;
	if (glob(pattern, 0, NULL, &found) == 0) {
		char line[4096];
		FILE *f = fopen(found.gl_pathv[0], "r");
		CHECK(f != NULL);
		while (fgets(line, sizeof line, f) != NULL)
			there = there || strstr(line, text) != NULL;
		fclose(f);
		globfree(&found);
	}
	return there;
}

/* A version that no runtime has. */
static aclError other_version(int32_t *major, int32_t *minor, int32_t *patch)
{
	*major = *minor = *patch = 99;
	return ACL_SUCCESS;
}

static void hooks(void)
{
	aclrtApiFunc original = NULL, current = NULL;
	int32_t major = 0, minor = 0, patch = 0;
	FUNCTION("aclrtApiInjectionGetFunc") {
		OK(aclrtApiInjectionGetFunc("aclrtGetVersion", &original, &current));
		EFFECT(original && original == current);
		REFUSES("name-unknown", aclrtApiInjectionGetFunc("aclInit", &original, &current));
	}
	FUNCTION("aclrtApiInjectionSetFunc") {
		OK(aclrtApiInjectionSetFunc("aclrtGetVersion", (aclrtApiFunc)(void (*)(void))other_version));
		OK(aclrtGetVersion(&major, &minor, &patch));
		EFFECT(major == 99 && minor == 99 && patch == 99);
		OK(aclrtApiInjectionSetFunc("aclrtGetVersion", original));
		OK(aclrtGetVersion(&major, &minor, &patch));
		EFFECT(major == ACL_MAJOR_VERSION);
		REFUSES("name-unknown", aclrtApiInjectionSetFunc("aclInit", original));
	}
}

/* The test puts a package runtime of version 8.5.0.alpha1 into ASCEND_HOME_PATH, and none of another name. */
static void versions(void)
{
	int32_t major = 9, minor = 9, patch = 9, number = 0;
	char text[ACL_PKG_VERSION_MAX_SIZE] = "", runtime[] = "runtime", missing[] = "missing";
	aclCANNPackageVersion version;
	FUNCTION("aclrtGetVersion") {
		OK(aclrtGetVersion(&major, &minor, &patch));
		EFFECT(major == ACL_MAJOR_VERSION && minor == ACL_MINOR_VERSION && patch == ACL_PATCH_VERSION);
	}
	FUNCTION("aclsysGetCANNVersion") {
		OK(aclsysGetCANNVersion(ACL_PKG_NAME_RUNTIME, &version));
		EFFECT(strcmp(version.version, "8.5.0.alpha1") == 0 && strcmp(version.majorVersion, "8") == 0);
		REFUSES("no-package", aclsysGetCANNVersion(ACL_PKG_NAME_HCCL, &version));
	}
	FUNCTION("aclsysGetVersionStr") {
		OK(aclsysGetVersionStr(runtime, text));
		EFFECT(strcmp(text, "8.5.0.alpha1") == 0);
		REFUSES("no-package", aclsysGetVersionStr(missing, text));
	}
	FUNCTION("aclsysGetVersionNum") {
		OK(aclsysGetVersionNum(runtime, &number));
		EFFECT(number == 8 * 10000000 + 5 * 100000 - 300 + 1);
	}
}

static void machine(void)
{
	const aclCannAttr *list = NULL;
	size_t n = 0;
	int32_t has = 9;
	int64_t cores = 0;
	FUNCTION("aclrtGetSocName") {
		const char *name = aclrtGetSocName();
		EFFECT(name != NULL && strncmp(name, "Ascend910B", 10) == 0);
		NO_CONTEXT
			EDGE(strcmp(aclrtGetSocName(), name) == 0); /* it needs none */
	}
	FUNCTION("aclGetCannAttributeList") {
		OK(aclGetCannAttributeList(&list, &n));
		EFFECT(n == 2 && list[0] == ACL_CANN_ATTR_INF_NAN && list[1] == ACL_CANN_ATTR_BF16);
	}
	FUNCTION("aclGetCannAttribute") {
		OK(aclGetCannAttribute(ACL_CANN_ATTR_BF16, &has));
		EFFECT(has == 1);
		OK(aclGetCannAttribute(ACL_CANN_ATTR_JIT_COMPILE, &has));
		EFFECT(has == 0);
		REFUSES("attribute-unknown", aclGetCannAttribute(ACL_CANN_ATTR_UNDEFINED, &has));
	}
	FUNCTION("aclGetDeviceCapability") {
		OK(aclGetDeviceCapability(0, ACL_DEVICE_INFO_AI_CORE_NUM, &cores));
		EFFECT(cores == 24);
		REFUSES("deviceId-range", aclGetDeviceCapability(99, ACL_DEVICE_INFO_AI_CORE_NUM, &cores));
		REFUSES("info-unknown", aclGetDeviceCapability(0, ACL_DEVICE_INFO_UNDEFINED, &cores));
	}
	FUNCTION("aclAppLog") {
		ACL_APP_LOG(ACL_ERROR, "%s number %d", "entry", 41);
		ACL_APP_LOG(ACL_DEBUG, "%s number %d", "entry", 42);
		EFFECT(logged("entry number 41"));
		EDGE(!logged("entry number 42")); /* below the level that is logged */
	}
}

static void numbers(void)
{
	FUNCTION("aclFloat16ToFloat") {
		EFFECT(aclFloat16ToFloat(0x3C00) == 1.0f && aclFloat16ToFloat(0xC000) == -2.0f && aclFloat16ToFloat(0x0001) == 0x1p-24f);
		EDGE(aclFloat16ToFloat(0x7C00) == 65536.0f); /* there is no infinity */
	}
	FUNCTION("aclFloatToFloat16") {
		EFFECT(aclFloatToFloat16(1.0f) == 0x3C00 && aclFloatToFloat16(-2.0f) == 0xC000);
		EDGE(aclFloatToFloat16(INFINITY) == 0x7BFF && aclFloatToFloat16(-1e30f) == 0xFBFF); /* it saturates */
	}
	FUNCTION("aclDataTypeSize") {
		EFFECT(aclDataTypeSize(ACL_FLOAT) == 4 && aclDataTypeSize(ACL_INT8) == 1 && aclDataTypeSize(ACL_COMPLEX128) == 16);
		EDGE(aclDataTypeSize(ACL_DT_UNDEFINED) == 0 && aclDataTypeSize(ACL_STRING) == 0);
	}
}

static void buffers(void)
{
	const size_t large = ((size_t)1 << 32) + 5;
	aclDataBuffer *b = NULL, *empty = NULL;
	FUNCTION("aclCreateDataBuffer") {
		b = aclCreateDataBuffer(scene.dev[0], ROOM);
		EFFECT(b != NULL && aclGetDataBufferAddr(b) == scene.dev[0] && aclGetDataBufferSizeV2(b) == ROOM);
		empty = aclCreateDataBuffer(NULL, 0);
		EDGE(empty != NULL && aclGetDataBufferAddr(empty) == NULL);
	}
	FUNCTION("aclUpdateDataBuffer") {
		OK(aclUpdateDataBuffer(b, scene.dev[1], large));
		EFFECT(aclGetDataBufferAddr(b) == scene.dev[1] && aclGetDataBufferSizeV2(b) == large);
	}
	FUNCTION("aclGetDataBufferAddr") {
		EFFECT(aclGetDataBufferAddr(b) == scene.dev[1]);
		EDGE(aclGetDataBufferAddr(NULL) == NULL);
	}
	FUNCTION("aclGetDataBufferSize") {
		EFFECT(aclGetDataBufferSize(b) == 5); /* cut to 32 bits */
		EDGE(aclGetDataBufferSize(NULL) == 0);
	}
	FUNCTION("aclGetDataBufferSizeV2") {
		EFFECT(aclGetDataBufferSizeV2(b) == large);
		EDGE(aclGetDataBufferSizeV2(NULL) == 0);
	}
	FUNCTION("aclDestroyDataBuffer") {
		EFFECT(aclDestroyDataBuffer(b) == ACL_SUCCESS && aclDestroyDataBuffer(empty) == ACL_SUCCESS);
	}
}

void functions_misc(void)
{
	hooks();
	versions();
	machine();
	numbers();
	buffers();
}
