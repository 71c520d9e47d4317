/* Functions that are not built check their arguments as documented, and then say what they are. */
#include <acl/acl.h>
#include <string.h>
#include "check.h"

#define GARBAGE ((void *)0x123456789)

int main(void)
{
	aclrtStream s;
	aclrtLabel label;
	aclmdlRI model;
	OK(aclrtSetDevice(0));
	OK(aclrtCreateStream(&s));
	IS(ACL_ERROR_INVALID_PARAM, aclrtCreateLabel(NULL));
	IS(ACL_ERROR_INVALID_PARAM, aclrtActiveStream(NULL, s));
	IS(ACL_ERROR_RT_INVALID_HANDLE, aclrtActiveStream(GARBAGE, s));
	IS(ACL_ERROR_RT_INVALID_HANDLE, aclrtActiveStream(s, GARBAGE));
	IS(ACL_ERROR_RT_PARAM_INVALID, aclrtSwitchStream(GARBAGE, (aclrtCondition)6, GARBAGE, (aclrtCompareDataType)0, s, NULL, s));
	IS(ACL_ERROR_RT_PARAM_INVALID, aclrtSwitchStream(GARBAGE, (aclrtCondition)0, GARBAGE, (aclrtCompareDataType)2, s, NULL, s));
	aclGetRecentErrMsg(); /* forgets */
	IS(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclrtCreateLabel(&label));
	const char *text = aclGetRecentErrMsg();
	CHECK(text != NULL && strstr(text, "aclrtCreateLabel") != NULL && strstr(text, "not built in ropeway yet") != NULL);
	CHECK(strstr(text, "another product") == NULL);
	IS(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclrtCreateLabel(&label));
	IS(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclmdlRIBuildBegin(&model, 0));
	return 0;
}
