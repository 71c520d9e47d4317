/* Functions that are not built check their arguments as documented, and then say what they are. */
#include <acl/acl.h>
#include <string.h>
#include <unistd.h>
#include "check.h"

#define GARBAGE ((void *)0x123456789)

static uint32_t stage(int32_t device, void *args)
{
	(void)device, (void)args;
	return 0;
}

int main(void)
{
	aclrtStream s;
	OK(aclrtSetDevice(0));
	OK(aclrtCreateStream(&s));
	IS(ACL_ERROR_INVALID_PARAM, aclrtSnapShotProcessLock(-1, NULL));
	IS(ACL_ERROR_INVALID_PARAM, aclrtSnapShotProcessLock(getpid(), GARBAGE));
	IS(ACL_ERROR_RT_PARAM_INVALID, aclrtSnapShotCallbackRegister((aclrtSnapShotStage)6, stage, NULL));
	IS(ACL_ERROR_RT_PARAM_INVALID, aclrtSnapShotCallbackRegister((aclrtSnapShotStage)0, NULL, NULL));
	aclGetRecentErrMsg(); /* forgets */
	IS(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclrtSnapShotProcessLock(getpid(), NULL));
	const char *text = aclGetRecentErrMsg();
	CHECK(text != NULL && strstr(text, "aclrtSnapShotProcessLock") != NULL && strstr(text, "not built in ropeway yet") != NULL);
	CHECK(strstr(text, "another product") == NULL);
	IS(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclrtSnapShotProcessLock(getpid(), NULL));
	IS(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclrtSnapShotCallbackRegister((aclrtSnapShotStage)0, stage, NULL));
	return 0;
}
