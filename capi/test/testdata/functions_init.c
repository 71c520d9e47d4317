/* Group init, in a process that has called nothing yet. */
#include "proof.h"

void functions_init(void);

/* How often the callbacks ran, and what they return. */
static int begun, ended;
static aclError result = ACL_SUCCESS;

static aclError on_init(const char *config, size_t len, void *data)
{
	(void)config, (void)len;
	begun += *(int *)data;
	return ACL_SUCCESS;
}

static aclError on_finalize(void *data)
{
	ended += *(int *)data;
	return result;
}

void functions_init(void)
{
	int one = 1;
	uint64_t left = 9;
	FUNCTION("aclInitCallbackRegister") {
		OK(aclInitCallbackRegister(ACL_REG_TYPE_ACL_DVPP, on_init, &one));
		CHECK(begun == 0);
		REFUSES("registered", aclInitCallbackRegister(ACL_REG_TYPE_ACL_DVPP, on_init, &one));
		OK(aclInit(NULL));
		EFFECT(begun == 1);
	}
	FUNCTION("aclInit") {
		REFUSES("initialised", aclInit(NULL)); /* which raises the count all the same */
		OK(aclFinalizeReference(&left));
		EFFECT(left == 1);
		OK(aclFinalize());
		REFUSES("unreadable", aclInit("/nowhere/acl.json"));
		OK(aclInit(NULL));
		EFFECT(begun == 2);
	}
	FUNCTION("aclFinalizeCallbackRegister") {
		OK(aclFinalizeCallbackRegister(ACL_REG_TYPE_OTHER, on_finalize, &one));
		OK(aclFinalize());
		EFFECT(ended == 1);
	}
	FUNCTION("aclFinalize") {
		REFUSES("finalised", aclFinalize());
		OK(aclInit(NULL));
		result = 42; /* a callback that fails: the library stays as it is */
		IS(42, aclFinalize());
		result = ACL_SUCCESS;
		OK(aclFinalize());
		EFFECT(ended == 3);
	}
	FUNCTION("aclFinalizeReference") {
		OK(aclInit(NULL));
		IS(ACL_ERROR_REPEAT_INITIALIZE, aclInit(NULL));
		OK(aclFinalizeReference(&left));
		EFFECT(left == 1 && ended == 3);
		OK(aclFinalizeReference(&left));
		EFFECT(left == 0 && ended == 4);
		left = 9;
		REFUSES("count-0", aclFinalizeReference(&left));
		CHECK(left == 0);
	}
	FUNCTION("aclInitCallbackUnRegister") {
		OK(aclInitCallbackUnRegister(ACL_REG_TYPE_ACL_DVPP, on_init));
		int before = begun;
		OK(aclInit(NULL));
		EFFECT(begun == before);
		REFUSES("not-registered", aclInitCallbackUnRegister(ACL_REG_TYPE_ACL_DVPP, on_init));
	}
	FUNCTION("aclFinalizeCallbackUnRegister") {
		OK(aclFinalizeCallbackUnRegister(ACL_REG_TYPE_OTHER, on_finalize));
		OK(aclFinalize());
		EFFECT(ended == 4);
		REFUSES("not-registered", aclFinalizeCallbackUnRegister(ACL_REG_TYPE_OTHER, on_finalize));
	}
	OK(aclrtSetDevice(0)); /* works without aclInit; and without a context there would always be a text */
	drop_message();
	OK(aclrtResetDevice(0));
}
