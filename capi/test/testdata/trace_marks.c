/* Moments and ranges with texts, of two threads and a stream. "killed": a range is open when the process ends. */
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>

#include "acl/acl.h"
#include "acl/acl_prof.h"
#include "check.h"

static void *named(const char *text)
{
	void *stamp = aclprofCreateStamp();
	CHECK(stamp != NULL);
	OK(aclprofSetStampTraceMessage(stamp, text, (uint32_t)strlen(text)));
	return stamp;
}

static void *ends(void *number)
{
	OK(aclprofRangeStop(*(uint32_t *)number));
	return NULL;
}

int main(int argc, char **argv)
{
	OK(aclInit(NULL));
	OK(aclrtSetDevice(0));
	aclrtStream stream;
	OK(aclrtCreateStream(&stream));
	void *load = named("load"), *layer = named("layer 1"), *request = named("request \"7\" ü"), *now = named("now");
	uint32_t number;
	OK(aclprofRangeStart(request, &number));
	OK(aclprofPush(load));
	OK(aclprofPush(layer));
	OK(aclprofMark(now));
	if (argc > 1 && strcmp(argv[1], "killed") == 0)
		raise(SIGKILL);
	OK(aclprofMarkEx("first token", 11, stream));
	OK(aclrtSynchronizeStream(stream));
	OK(aclprofPop());
	OK(aclprofPop());
	pthread_t other;
	CHECK(pthread_create(&other, NULL, ends, &number) == 0 && pthread_join(other, NULL) == 0);
	OK(aclrtDestroyStream(stream));
	return 0;
}
