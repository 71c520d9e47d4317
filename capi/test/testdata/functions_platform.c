/* Groups platform, compute-group, other: what there is to know of a product; groups of cores; marks with numbers. */
#include <acl/acl_platform.h>
#include "proof.h"

void functions_platform(void);
void functions_groups(void);

void functions_platform(void)
{
	char text[32];
	struct gate gate;
	aclrtStreamStatus state = ACL_STREAM_STATUS_RESERVED;
	FUNCTION("aclplatformGetDeviceInfo") {
		OK(aclplatformGetDeviceInfo(ACL_PLATFORM_SOC_VERSION, text, sizeof text));
		EFFECT(strcmp(text, "Ascend910B1") == 0);
		OK(aclplatformGetDeviceInfo(ACL_PLATFORM_VECTOR_CORE_CNT, text, sizeof text));
		EFFECT(strcmp(text, "48") == 0);
		REFUSES("no-such-value", aclplatformGetDeviceInfo(ACL_PLATFORM_VEC_FREQ, text, sizeof text));
		REFUSES("maxLen-too-small", aclplatformGetDeviceInfo(ACL_PLATFORM_SOC_VERSION, text, 11));
	}
	FUNCTION("aclplatformGetInstructionInfo") {
		OK(aclplatformGetInstructionInfo(ACL_PLATFORM_CORE_TYPE_AI_CORE, "Intrinsic_vadd", text, sizeof text));
		EFFECT(strcmp(text, "float16,float32,int32,int16") == 0);
		REFUSES("no-such-instruction", aclplatformGetInstructionInfo(ACL_PLATFORM_CORE_TYPE_AI_CORE, "vadd", text, sizeof text));
	}
	FUNCTION("aclrtProfTrace") {
		unsigned char data[18] = {5};
		block(&gate, scene.stream);
		OK(aclrtProfTrace(data, sizeof data, scene.stream));
		OK(aclrtStreamQuery(scene.stream, &state));
		EFFECT(state == ACL_STREAM_STATUS_NOT_READY);
		OK(unblock(&gate, scene.stream));
	}
}

/* On a 310P in RC form. */
void functions_groups(void)
{
	uint32_t count = 0;
	int32_t value = 0;
	size_t size = 0;
	aclrtGroupInfo *info = NULL;
	FUNCTION("aclrtGetGroupCount") {
		OK(aclrtGetGroupCount(&count));
		EFFECT(count == 1);
	}
	FUNCTION("aclrtSetGroup") {
		EFFECT(aclrtSetGroup(0) == ACL_SUCCESS);
		REFUSES("no-such-group", aclrtSetGroup(1));
	}
	FUNCTION("aclrtCreateGroupInfo") {
		info = aclrtCreateGroupInfo();
		EFFECT(info != NULL);
		NO_CONTEXT
			EDGE(aclrtCreateGroupInfo() == NULL);
	}
	FUNCTION("aclrtGetAllGroupInfo") {
		EFFECT(aclrtGetAllGroupInfo(info) == ACL_SUCCESS);
		REFUSES("groupInfo-not-live", aclrtGetAllGroupInfo(GARBAGE));
	}
	FUNCTION("aclrtGetGroupInfoDetail") {
		OK(aclrtGetGroupInfoDetail(info, 0, ACL_GROUP_AICORE_INT, &value, sizeof value, &size));
		EFFECT(value == 8 && size == 4);
		REFUSES("index-over-groups", aclrtGetGroupInfoDetail(info, 1, ACL_GROUP_AICORE_INT, &value, sizeof value, &size));
		REFUSES("valueLen-below-4", aclrtGetGroupInfoDetail(info, 0, ACL_GROUP_AICORE_INT, &value, 3, &size));
	}
	FUNCTION("aclrtDestroyGroupInfo") {
		OK(aclrtDestroyGroupInfo(info));
		EFFECT(aclrtGetAllGroupInfo(info) == ACL_ERROR_RT_INVALID_HANDLE);
		REFUSES("groupInfo-not-live", aclrtDestroyGroupInfo(info));
	}
}
