/* Functions that are not built check their arguments as documented, and then say what they are. */
#include <acl/acl.h>
#include <string.h>
#include "check.h"

#define GARBAGE ((void *)0x123456789)

int main(void)
{
	aclrtStream s;
	aclrtLabel label;
	OK(aclrtSetDevice(0));
	OK(aclrtCreateStream(&s));
	IS(ACL_ERROR_INVALID_PARAM, aclmdlRICaptureBegin(NULL, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
	IS(ACL_ERROR_RT_INVALID_HANDLE, aclmdlRICaptureBegin(GARBAGE, (aclmdlRICaptureMode)3));
	IS(ACL_ERROR_RT_PARAM_INVALID, aclmdlRICaptureBegin(s, (aclmdlRICaptureMode)3));
	IS(ACL_ERROR_RT_PARAM_INVALID, aclmdlRICaptureBegin(s, (aclmdlRICaptureMode)-1));
	IS(ACL_ERROR_RT_INVALID_HANDLE, aclmdlRIExecuteAsync(GARBAGE, s));
	IS(ACL_ERROR_INVALID_PARAM, aclrtLaunchKernel(NULL, 1, GARBAGE, 8, s));
	aclGetRecentErrMsg(); /* forgets */
	IS(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclmdlRICaptureBegin(s, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
	const char *text = aclGetRecentErrMsg();
	CHECK(text != NULL && strstr(text, "aclmdlRICaptureBegin") != NULL && strstr(text, "not built in ropeway yet") != NULL);
	CHECK(strstr(text, "another product") == NULL);
	IS(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclmdlRICaptureBegin(s, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
	IS(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclrtCreateLabel(&label));
	return 0;
}
