/* Group config. */
#include "proof.h"

void functions_config(void);

enum { CUBES = 24 }; /* of an A2 */

static const aclrtDevResLimitType cube = ACL_RT_DEV_RES_CUBE_CORE;

static uint32_t of_device(void)
{
	uint32_t n = 999;
	OK(aclrtGetDeviceResLimit(0, cube, &n));
	return n;
}

static uint32_t of_stream(void)
{
	uint32_t n = 999;
	OK(aclrtGetStreamResLimit(scene.stream, cube, &n));
	return n;
}

static uint32_t of_thread(void)
{
	uint32_t n = 999;
	OK(aclrtGetResInCurrentThread(cube, &n));
	return n;
}

/* The same on another thread of the context. */
static void of_another(void *n)
{
	OK(aclrtSetCurrentContext(scene.home));
	*(uint32_t *)n = of_thread();
}

void functions_config(void)
{
	int64_t value = 9;
	uint32_t n = 999;
	FUNCTION("aclrtSetSysParamOpt") {
		OK(aclrtSetSysParamOpt(ACL_OPT_ENABLE_DEBUG_KERNEL, 1));
		OK(aclrtGetSysParamOpt(ACL_OPT_ENABLE_DEBUG_KERNEL, &value));
		EFFECT(value == 1);
		REFUSES("value-range", aclrtSetSysParamOpt(ACL_OPT_ENABLE_DEBUG_KERNEL, 2));
	}
	FUNCTION("aclrtGetSysParamOpt") {
		OK(aclrtGetSysParamOpt(ACL_OPT_ENABLE_KERNEL_EARLY_START, &value));
		EFFECT(value == 0);
	}
	FUNCTION("aclrtSetDeviceResLimit") {
		OK(aclrtSetDeviceResLimit(0, cube, 5));
		EFFECT(of_device() == 5);
		REFUSES("value-over-hardware", aclrtSetDeviceResLimit(0, cube, CUBES + 1));
	}
	FUNCTION("aclrtGetDeviceResLimit") {
		EFFECT(of_device() == 5);
	}
	FUNCTION("aclrtResetDeviceResLimit") {
		OK(aclrtResetDeviceResLimit(0));
		EFFECT(of_device() == CUBES);
	}
	FUNCTION("aclrtSetStreamResLimit") {
		OK(aclrtSetStreamResLimit(scene.stream, cube, 7));
		EFFECT(of_stream() == 7);
		REFUSES("value-over-hardware", aclrtSetStreamResLimit(scene.stream, cube, CUBES + 1));
	}
	FUNCTION("aclrtGetStreamResLimit") {
		EFFECT(of_stream() == 7);
	}
	FUNCTION("aclrtUseStreamResInCurrentThread") {
		OK(aclrtUseStreamResInCurrentThread(scene.stream));
		on_stranger(of_another, &n);
		EFFECT(of_thread() == 7 && n == CUBES); /* of this thread alone */
	}
	FUNCTION("aclrtGetResInCurrentThread") {
		EFFECT(of_thread() == 7);
	}
	FUNCTION("aclrtUnuseStreamResInCurrentThread") {
		OK(aclrtUnuseStreamResInCurrentThread(scene.stream));
		EFFECT(of_thread() == CUBES);
	}
	FUNCTION("aclrtResetStreamResLimit") {
		OK(aclrtResetStreamResLimit(scene.stream));
		EFFECT(of_stream() == CUBES);
		NO_CONTEXT
			REFUSES("stream-null-and-no-context", aclrtResetStreamResLimit(NULL));
	}
}
