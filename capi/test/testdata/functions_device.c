/* Group device. */
#include "proof.h"

void functions_device(void);

static int32_t current(void)
{
	int32_t id = -1;
	OK(aclrtGetDevice(&id));
	return id;
}

/* Whether a device has a primary context. */
static bool is_active(int32_t id)
{
	int32_t active = 9;
	OK(aclrtGetPrimaryCtxState(id, NULL, &active));
	return active == 1;
}

/* On a thread of its own: setting and resetting change what is current. */
static void setting(void *unused)
{
	(void)unused;
	FUNCTION("aclrtSetDevice") {
		OK(aclrtSetDevice(2));
		EFFECT(current() == 2 && is_active(2));
	}
	FUNCTION("aclrtResetDevice") {
		OK(aclrtResetDevice(2));
		EFFECT(!is_active(2));
		REFUSES("count-0", aclrtResetDevice(2));
	}
	FUNCTION("aclrtResetDeviceForce") {
		OK(aclrtSetDevice(2));
		OK(aclrtSetDevice(2));
		OK(aclrtResetDeviceForce(2));
		EFFECT(!is_active(2));
		REFUSES("count-0", aclrtResetDeviceForce(2));
	}
}

static atomic_int states[4], other;

static void on_state(int32_t id, aclrtDeviceState state, void *args)
{
	if (id == 3 && args == states && (int)state >= 0 && (int)state < 4)
		atomic_fetch_add(&states[state], 1);
	else
		atomic_fetch_add(&other, 1);
}

static void reporting(void *unused)
{
	(void)unused;
	FUNCTION("aclrtRegDeviceStateCallback") {
		OK(aclrtRegDeviceStateCallback("test", on_state, states));
		OK(aclrtSetDevice(3));
		EFFECT(states[ACL_RT_DEVICE_STATE_SET_PRE] == 1 && states[ACL_RT_DEVICE_STATE_SET_POST] == 1);
		OK(aclrtResetDevice(3));
		EFFECT(states[ACL_RT_DEVICE_STATE_RESET_PRE] == 1 && states[ACL_RT_DEVICE_STATE_RESET_POST] == 1);
		REFUSES("registered", aclrtRegDeviceStateCallback("test", on_state, NULL));
		OK(aclrtRegDeviceStateCallback("test", NULL, NULL));
		OK(aclrtSetDevice(3));
		OK(aclrtResetDevice(3));
		EFFECT(states[0] == 1 && other == 0);
	}
}

static void waiting(void)
{
	struct gate gate;
	FUNCTION("aclrtSynchronizeDevice") {
		fill(scene.dev[0], OLD);
		OK(aclrtMemcpyAsync(scene.dev[0], ROOM, scene.dev[1], ROOM, ACL_MEMCPY_DEVICE_TO_DEVICE, scene.stream));
		OK(aclrtSynchronizeDevice());
		aclrtStreamStatus status = ACL_STREAM_STATUS_RESERVED;
		OK(aclrtStreamQuery(scene.stream, &status));
		EFFECT(status == ACL_STREAM_STATUS_COMPLETE);
		NO_CONTEXT
			REFUSES("no-context", aclrtSynchronizeDevice());
	}
	FUNCTION("aclrtSynchronizeDeviceWithTimeout") {
		block(&gate, scene.stream);
		REFUSES("time-up", aclrtSynchronizeDeviceWithTimeout(1));
		gate_open(&gate);
		EFFECT(aclrtSynchronizeDeviceWithTimeout(-1) == ACL_SUCCESS);
		gate_drop(&gate);
	}
}

static void peers(void)
{
	int32_t can = 9;
	fill(scene.dev[0], NEW);
	FUNCTION("aclrtDeviceCanAccessPeer") {
		OK(aclrtDeviceCanAccessPeer(&can, 0, 1));
		EFFECT(can == 1);
	}
	FUNCTION("aclrtDeviceEnablePeerAccess") {
		OK(aclrtDeviceEnablePeerAccess(1, 0));
		OK(aclrtMemcpy(scene.far, ROOM, scene.dev[0], ROOM, ACL_MEMCPY_DEVICE_TO_DEVICE));
		EFFECT(holds(scene.far, ROOM, NEW));
		REFUSES("peer-is-self", aclrtDeviceEnablePeerAccess(0, 0));
	}
	FUNCTION("aclrtDevicePeerAccessStatus") {
		OK(aclrtDevicePeerAccessStatus(0, 1, &can));
		EFFECT(can == 1);
		OK(aclrtDevicePeerAccessStatus(1, 0, &can));
		EFFECT(can == 0); /* one direction only */
	}
	FUNCTION("aclrtDeviceDisablePeerAccess") {
		OK(aclrtDeviceDisablePeerAccess(1));
		EFFECT(aclrtMemcpy(scene.far, ROOM, scene.dev[0], ROOM, ACL_MEMCPY_DEVICE_TO_DEVICE) == ACL_ERROR_RT_PARAM_INVALID);
		REFUSES("peer-is-self", aclrtDeviceDisablePeerAccess(0));
	}
	FUNCTION("aclrtGetDevicesTopo") {
		uint64_t topo = 0;
		OK(aclrtGetDevicesTopo(0, 1, &topo));
		EFFECT(topo == ACL_RT_DEVS_TOPOLOGY_HCCS);
		REFUSES("otherDeviceId-unusable", aclrtGetDevicesTopo(0, 99, &topo));
	}
}

static void overflow(void)
{
	aclrtFloatOverflowMode mode = ACL_RT_OVERFLOW_MODE_UNDEF;
	FUNCTION("aclrtGetDeviceSatMode") {
		OK(aclrtGetDeviceSatMode(&mode));
		EFFECT(mode == ACL_RT_OVERFLOW_MODE_INFNAN);
	}
	FUNCTION("aclrtSetDeviceSatMode") {
		OK(aclrtSetDeviceSatMode(ACL_RT_OVERFLOW_MODE_SATURATION));
		OK(aclrtGetDeviceSatMode(&mode));
		EFFECT(mode == ACL_RT_OVERFLOW_MODE_SATURATION);
		OK(aclrtSetDeviceSatMode(ACL_RT_OVERFLOW_MODE_INFNAN));
	}
}

static void describing(void)
{
	aclrtRunMode mode = ACL_DEVICE;
	uint32_t count = 0;
	int64_t value = 0;
	int32_t id = 9, least = 9, greatest = 9;
	FUNCTION("aclrtGetDevice") {
		EFFECT(current() == 0);
		NO_CONTEXT
			REFUSES("no-context", aclrtGetDevice(&id));
	}
	FUNCTION("aclrtGetRunMode") {
		OK(aclrtGetRunMode(&mode));
		EFFECT(mode == ACL_HOST);
	}
	FUNCTION("aclrtSetTsDevice") {
		OK(aclrtSetTsDevice(ACL_TS_ID_AIVECTOR));
		EFFECT(current() == 0);
	}
	FUNCTION("aclrtGetDeviceCount") {
		OK(aclrtGetDeviceCount(&count));
		EFFECT(count == 4); /* ROPEWAY_DEVICES */
	}
	FUNCTION("aclrtGetDeviceUtilizationRate") {
		aclrtUtilizationInfo info = {.memoryUtilization = 9};
		OK(aclrtGetDeviceUtilizationRate(0, &info));
		EFFECT(info.memoryUtilization == -1 && info.cubeUtilization == -1);
		info.utilizationExtend = (void *)&info;
	}
	FUNCTION("aclrtQueryDeviceStatus") {
		aclrtDeviceStatus status = ACL_RT_DEVICE_STATUS_END;
		OK(aclrtQueryDeviceStatus(0, &status));
		EFFECT(status == ACL_RT_DEVICE_STATUS_NORMAL);
	}
	FUNCTION("aclrtDeviceGetBareTgid") {
		OK(aclrtDeviceGetBareTgid(&id));
		EFFECT(id == getpid());
	}
	FUNCTION("aclrtGetDeviceInfo") {
		OK(aclrtGetDeviceInfo(0, ACL_DEV_ATTR_TOTAL_GLOBAL_MEM_SIZE, &value));
		const char *driver = getenv("ROPEWAY_DRIVER");
		EFFECT(driver ? value > 0 : value == (int64_t)256 << 20); /* ROPEWAY_DEVICE_MEMORY; a GPU has what it has */
		REFUSES("deviceId-range", aclrtGetDeviceInfo(99, ACL_DEV_ATTR_CUBE_CORE_NUM, &value));
		REFUSES("attr-unknown", aclrtGetDeviceInfo(0, (aclrtDevAttr)9999, &value));
	}
	FUNCTION("aclrtDeviceGetStreamPriorityRange") {
		OK(aclrtDeviceGetStreamPriorityRange(&least, &greatest));
		EFFECT(least == 7 && greatest == 0);
		EDGE(aclrtDeviceGetStreamPriorityRange(NULL, NULL) == ACL_SUCCESS);
	}
	FUNCTION("aclrtGetDeviceCapability") {
		int32_t has = 9;
		OK(aclrtGetDeviceCapability(0, ACL_FEATURE_SYSTEM_MEMQ_EVENT_CROSS_DEV, &has));
		EFFECT(has == ACL_DEV_FEATURE_NOT_SUPPORT);
		REFUSES("feature-unknown", aclrtGetDeviceCapability(0, (aclrtDevFeatureType)2, &has));
	}
	FUNCTION("aclrtDeviceL2CacheFlush") {
		EFFECT(aclrtDeviceL2CacheFlush(NULL) == ACL_ERROR_RT_FEATURE_NOT_SUPPORT); /* no driver has such a cache */
		REFUSES("not-offered", aclrtDeviceL2CacheFlush(NULL));
	}
}

static void naming(void)
{
	char text[32] = "";
	int32_t id = 9;
	FUNCTION("aclrtDeviceGetUuid") {
		aclrtUuid a, b, again;
		OK(aclrtDeviceGetUuid(0, &a));
		OK(aclrtDeviceGetUuid(1, &b));
		OK(aclrtDeviceGetUuid(0, &again));
		EFFECT(memcmp(&a, &b, sizeof a) != 0 && memcmp(&a, &again, sizeof a) == 0);
	}
	FUNCTION("aclrtDeviceGetPCIBusId") {
		OK(aclrtDeviceGetPCIBusId(2, text, sizeof text));
		EFFECT(strlen(text) == 12 && text[4] == ':' && text[10] == '.');
	}
	FUNCTION("aclrtDeviceGetByPCIBusId") {
		OK(aclrtDeviceGetByPCIBusId(text, &id));
		EFFECT(id == 2);
		REFUSES("no-such-device", aclrtDeviceGetByPCIBusId("nowhere", &id));
	}
	static const struct {
		const char *name;
		aclError (*ask)(const int32_t, int32_t *const);
	} ids[] = {
		{"aclrtGetLogicDevIdByUserDevId", aclrtGetLogicDevIdByUserDevId},
		{"aclrtGetUserDevIdByLogicDevId", aclrtGetUserDevIdByLogicDevId},
		{"aclrtGetLogicDevIdByPhyDevId", aclrtGetLogicDevIdByPhyDevId},
		{"aclrtGetPhyDevIdByLogicDevId", aclrtGetPhyDevIdByLogicDevId},
		{"aclrtGetUserDevIdByPhyDevId", aclrtGetUserDevIdByPhyDevId},
		{"aclrtGetPhyDevIdByUserDevId", aclrtGetPhyDevIdByUserDevId},
	};
	for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++)
		FUNCTION(ids[i].name) {
			id = 9;
			OK(ids[i].ask(3, &id));
			EFFECT(id == 3); /* ASCEND_RT_VISIBLE_DEVICES renumbers nothing here */
		}
}

static void limits(void)
{
	size_t value = 0;
	FUNCTION("aclrtDeviceSetLimit") {
		OK(aclrtDeviceSetLimit(ACL_RT_DEV_LIMIT_SIMD_STACK_SIZE, 32 * 1024 + 1));
		OK(aclrtDeviceGetLimit(ACL_RT_DEV_LIMIT_SIMD_STACK_SIZE, &value));
		EFFECT(value == 48 * 1024); /* rounded up */
	}
	FUNCTION("aclrtDeviceGetLimit") {
		OK(aclrtDeviceGetLimit(ACL_RT_DEV_LIMIT_SIMD_STACK_SIZE, &value));
		EFFECT(value == 48 * 1024);
	}
	aclrtAtomicOperation ops[] = {ACL_RT_ATOMIC_OPERATION_INTEGER_ADD, ACL_RT_ATOMIC_OPERATION_CAS};
	uint32_t caps[2] = {9, 9};
	FUNCTION("aclrtDeviceGetHostAtomicCapabilities") {
		OK(aclrtDeviceGetHostAtomicCapabilities(caps, ops, 2, 0));
		EFFECT(caps[0] == 0 && caps[1] == 0);
	}
	FUNCTION("aclrtDeviceGetP2PAtomicCapabilities") {
		caps[0] = caps[1] = 9;
		OK(aclrtDeviceGetP2PAtomicCapabilities(caps, ops, 2, 0, 1));
		EFFECT(caps[0] == 0 && caps[1] == 0);
		REFUSES("srcDeviceId-is-dstDeviceId", aclrtDeviceGetP2PAtomicCapabilities(caps, ops, 2, 1, 1));
	}
}

void functions_device(void)
{
	on_stranger(setting, NULL);
	on_stranger(reporting, NULL);
	waiting();
	peers();
	overflow();
	describing();
	naming();
	limits();
}
