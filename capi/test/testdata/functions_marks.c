/* Group profiling-tx, of a program that is recorded. */
#include "acl/acl_prof.h"
#include "proof.h"

void functions_marks(void);

static char text[] = "a part of it";

static void *stamped(void)
{
	void *stamp = aclprofCreateStamp();
	CHECK(stamp != NULL);
	OK(aclprofSetStampTraceMessage(stamp, text, sizeof text - 1));
	return stamp;
}

static void stamps(void)
{
	void *all[100] = {NULL}, *stamp = NULL;
	FUNCTION("aclprofCreateStamp") {
		for (int i = 0; i < 100; i++)
			CHECK((all[i] = aclprofCreateStamp()) != NULL);
		EFFECT(all[0] != all[99]);
		EDGE(aclprofCreateStamp() == NULL);
	}
	FUNCTION("aclprofDestroyStamp") {
		for (int i = 0; i < 100; i++)
			aclprofDestroyStamp(all[i]);
		EFFECT((stamp = aclprofCreateStamp()) != NULL);
		aclprofDestroyStamp(stamp);
		EDGE(aclprofMark(stamp) == -1);
	}
	FUNCTION("aclprofSetStampTraceMessage") {
		stamp = aclprofCreateStamp();
		OK(aclprofSetStampTraceMessage(stamp, text, 4));
		EFFECT(aclprofMark(stamp) == ACL_SUCCESS);
		REFUSES("stamp-null", aclprofSetStampTraceMessage(NULL, text, 4));
		REFUSES("msgLen-at-least-128", aclprofSetStampTraceMessage(stamp, text, 128));
		REFUSES("msg-null", aclprofSetStampTraceMessage(stamp, NULL, 4));
		aclprofDestroyStamp(stamp);
	}
}

static void ranges(void)
{
	void *stamp = stamped();
	uint32_t id = 1000;
	FUNCTION("aclprofPush") {
		EFFECT(aclprofPush(stamp) == ACL_SUCCESS);
		REFUSES("stamp-null", aclprofPush(NULL));
	}
	FUNCTION("aclprofPop") {
		EFFECT(aclprofPop() == ACL_SUCCESS);
		REFUSES("nothing-pushed", aclprofPop());
	}
	FUNCTION("aclprofRangeStart") {
		OK(aclprofRangeStart(stamp, &id));
		EFFECT(id < 100);
		REFUSES("stamp-null", aclprofRangeStart(NULL, &id));
		REFUSES("rangeId-null", aclprofRangeStart(stamp, NULL));
	}
	FUNCTION("aclprofRangeStop") {
		EFFECT(aclprofRangeStop(id) == ACL_SUCCESS);
		REFUSES("rangeId-unknown", aclprofRangeStop(100));
	}
	aclprofDestroyStamp(stamp);
}

static void marks(void)
{
	void *stamp = stamped();
	FUNCTION("aclprofMark") {
		EFFECT(aclprofMark(stamp) == ACL_SUCCESS);
		REFUSES("stamp-null", aclprofMark(NULL));
	}
	FUNCTION("aclprofMarkEx") {
		aclrtStream stream;
		OK(aclrtCreateStream(&stream));
		EFFECT(aclprofMarkEx(text, sizeof text - 1, stream) == ACL_SUCCESS);
		OK(aclrtSynchronizeStream(stream));
		REFUSES("text-invalid", aclprofMarkEx(text, 3, stream));
		REFUSES("text-invalid", aclprofMarkEx(text, sizeof text - 1, NULL));
		OK(aclrtDestroyStream(stream));
	}
	aclprofDestroyStamp(stamp);
}

void functions_marks(void)
{
	stamps();
	ranges();
	marks();
}
