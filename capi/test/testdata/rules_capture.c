/* Rules of the copy family about captures: synchronous copies that one forbids, and memory that cannot be captured. */
#include "proof.h"

void rules_capture(const char *machine);

static aclrtStream begin(aclmdlRICaptureMode mode)
{
	aclrtStream s;
	OK(aclrtCreateStream(&s));
	OK(aclmdlRICaptureBegin(s, mode));
	return s;
}

/* The capture is as good as before. */
static void end(aclrtStream s)
{
	aclmdlRI m;
	OK(aclmdlRICaptureEnd(s, &m));
	OK(aclmdlRIDestroy(m));
	OK(aclrtDestroyStream(s));
}

static void in_the_way(void *dev, void *pin, void *page)
{
	aclrtStream s = begin(ACL_MODEL_RI_CAPTURE_MODE_GLOBAL);
	RULE("aclrtMemcpy", 10)
		EXPECT(aclrtMemcpy(dev, 64, pin, 64, ACL_MEMCPY_HOST_TO_DEVICE));
	RULE("aclrtMemcpy2d", 12)
		EXPECT(aclrtMemcpy2d(dev, 8, pin, 8, 8, 8, ACL_MEMCPY_HOST_TO_DEVICE));
	RULE("aclrtMemset", 5)
		EXPECT(aclrtMemset(dev, 64, 1, 64));
	RULE("aclrtMemcpyAsync", 20)
		EXPECT(aclrtMemcpyAsync(dev, 64, page, 64, ACL_MEMCPY_HOST_TO_DEVICE, scene.stream));
	RULE("aclrtMemcpy2dAsync", 17)
		EXPECT(aclrtMemcpy2dAsync(dev, 8, page, 8, 8, 8, ACL_MEMCPY_HOST_TO_DEVICE, scene.stream));
	RULE("aclrtMemcpyBatchAsync", 31) {
		aclrtMemcpyBatchAttr attr = {.dstLoc = {0, ACL_MEM_LOCATION_TYPE_DEVICE}, .srcLoc = {0, ACL_MEM_LOCATION_TYPE_HOST}};
		size_t size = 64, index = 0, failed = 0;
		EXPECT(aclrtMemcpyBatchAsync(&dev, &size, &page, &size, 1, &attr, &index, 1, &failed, scene.stream));
	}
	end(s);
	s = begin(ACL_MODEL_RI_CAPTURE_MODE_RELAXED); /* which forbids nobody anything */
	OK(aclrtMemcpy(dev, 64, pin, 64, ACL_MEMCPY_HOST_TO_DEVICE));
	RULE("aclrtMemcpyAsync", 17)
		EXPECT(aclrtMemcpyAsync(dev, 64, page, 64, ACL_MEMCPY_HOST_TO_DEVICE, s));
	RULE("aclrtMemcpy2dAsync", 15)
		EXPECT(aclrtMemcpy2dAsync(dev, 8, page, 8, 8, 8, ACL_MEMCPY_HOST_TO_DEVICE, s));
	end(s);
}

void rules_capture(const char *machine)
{
	if (strcmp(machine, "A2") == 0)
		in_the_way(scene.dev[0], scene.pin[0], scene.page[0]);
}
