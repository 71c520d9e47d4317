/* ropeway_wait: waits that look up in between. */
#include <acl/acl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

enum { STREAM, EVENT, DEVICE, REPORT };
aclError ropeway_wait(int32_t what, void *handle, int32_t milliseconds, int32_t *over);

int main(void)
{
	aclrtStream stream;
	aclrtEvent event, gate;
	int32_t over;
	OK(aclInit(NULL));
	OK(aclrtSetDevice(0));
	OK(aclrtCreateStream(&stream));
	OK(aclrtCreateEventWithFlag(&gate, ACL_EVENT_SYNC));
	OK(aclrtCreateEventWithFlag(&event, ACL_EVENT_SYNC | ACL_EVENT_CAPTURE_STREAM_PROGRESS));
	OK(aclrtStreamWaitEvent(stream, gate)); /* until another thread records it */
	OK(aclrtRecordEvent(event, stream));

	/* The time runs out: no error, and nothing that looks like one. */
	void *handles[] = {stream, event, NULL};
	for (int what = STREAM; what <= DEVICE; what++) {
		OK(ropeway_wait(what, handles[what], 20, &over));
		CHECK(!over);
		OK(aclrtPeekAtLastError(ACL_RT_THREAD_LEVEL));
		CHECK(aclGetRecentErrMsg() == NULL);
	}
	/* Errors are those of the function itself, and are recorded. */
	IS(ACL_ERROR_RT_INVALID_HANDLE, ropeway_wait(STREAM, (void *)1, 20, &over));
	CHECK(over);
	IS(ACL_ERROR_RT_INVALID_HANDLE, aclrtGetLastError(ACL_RT_THREAD_LEVEL));
	IS(ACL_ERROR_INVALID_PARAM, ropeway_wait(EVENT, NULL, 20, &over));
	CHECK(over);
	CHECK(ropeway_wait(REPORT, NULL, 20, &over) != ACL_SUCCESS && over); /* nobody subscribed */

	aclrtStream other;
	OK(aclrtCreateStream(&other));
	OK(aclrtRecordEvent(gate, other));
	for (int what = STREAM; what <= DEVICE; what++) {
		OK(ropeway_wait(what, handles[what], 60000, &over));
		CHECK(over);
	}
	pid_t child = fork();
	if (child == 0)
		_exit(ropeway_wait(STREAM, stream, 60000, &over) == ACL_ERROR_INTERNAL_ERROR && over ? 0 : 1);
	int status;
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	OK(aclrtDestroyStream(stream));
	OK(aclrtDestroyStream(other));
	OK(aclrtDestroyEvent(gate));
	OK(aclrtDestroyEvent(event));
	OK(aclrtResetDevice(0));
	OK(aclFinalize());
	return 0;
}
