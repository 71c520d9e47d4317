/* Group context. */
#include "proof.h"

void functions_context(void);

static aclrtContext current(void)
{
	aclrtContext c = NULL;
	OK(aclrtGetCurrentContext(&c));
	return c;
}

static void living(void)
{
	aclrtContext c = NULL, got;
	int32_t active = 9;
	FUNCTION("aclrtCreateContext") {
		OK(aclrtCreateContext(&c, 1));
		EFFECT(c != NULL && current() == c);
	}
	FUNCTION("aclrtSetCurrentContext") {
		OK(aclrtSetCurrentContext(scene.home));
		EFFECT(current() == scene.home);
		REFUSES("context-not-live", aclrtSetCurrentContext(GARBAGE));
	}
	FUNCTION("aclrtDestroyContext") {
		OK(aclrtDestroyContext(c));
		EFFECT(aclrtSetCurrentContext(c) == ACL_ERROR_RT_PARAM_INVALID && current() == scene.home);
		REFUSES("context-unknown", aclrtDestroyContext(c));
		REFUSES("primary", aclrtDestroyContext(scene.home));
	}
	FUNCTION("aclrtGetCurrentContext") {
		EFFECT(current() == scene.home);
		NO_CONTEXT
			REFUSES("none", aclrtGetCurrentContext(&got));
	}
	FUNCTION("aclrtGetPrimaryCtxState") {
		OK(aclrtGetPrimaryCtxState(0, NULL, &active));
		EFFECT(active == 1);
		OK(aclrtGetPrimaryCtxState(3, NULL, &active));
		EFFECT(active == 0);
	}
}

static void holding(void)
{
	aclrtStream s = NULL;
	int32_t id = -1, same = -2;
	void *p = NULL;
	int64_t value = 9;
	FUNCTION("aclrtCtxGetCurrentDefaultStream") {
		OK(aclrtCtxGetCurrentDefaultStream(&s));
		OK(aclrtStreamGetId(s, &id));
		OK(aclrtStreamGetId(NULL, &same));
		EFFECT(s != NULL && id == same);
		NO_CONTEXT
			REFUSES("no-context", aclrtCtxGetCurrentDefaultStream(&s));
	}
	FUNCTION("aclrtCtxGetFloatOverflowAddr") {
		uint64_t words[8];
		OK(aclrtCtxGetFloatOverflowAddr(&p));
		OK(aclrtMemcpy(words, sizeof words, p, sizeof words, ACL_MEMCPY_DEVICE_TO_HOST));
		for (int i = 0; i < 8; i++)
			EFFECT(words[i] == 0);
	}
	FUNCTION("aclrtCtxSetSysParamOpt") {
		OK(aclrtCtxSetSysParamOpt(ACL_OPT_DETERMINISTIC, 3));
		OK(aclrtCtxGetSysParamOpt(ACL_OPT_DETERMINISTIC, &value));
		EFFECT(value == 3);
		OK(aclrtGetSysParamOpt(ACL_OPT_DETERMINISTIC, &value));
		EFFECT(value == 3); /* of the process too */
		REFUSES("value-range", aclrtCtxSetSysParamOpt(ACL_OPT_DETERMINISTIC, 4));
	}
	FUNCTION("aclrtCtxGetSysParamOpt") {
		OK(aclrtCtxGetSysParamOpt(ACL_OPT_DETERMINISTIC, &value));
		EFFECT(value == 3);
		REFUSES("never-set", aclrtCtxGetSysParamOpt(ACL_OPT_STRONG_CONSISTENCY, &value));
		OK(aclrtSetCurrentContext(scene.other));
		REFUSES("never-set", aclrtCtxGetSysParamOpt(ACL_OPT_DETERMINISTIC, &value)); /* each context has its own */
		OK(aclrtSetCurrentContext(scene.home));
	}
}

void functions_context(void)
{
	living();
	holding();
}
