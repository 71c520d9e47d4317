/*
 * Two workers run the same captured step, each on its own stream: both use its one buffer.
 *
 * finds: stream-race (error)
 * offence: submitted aclmdlRIExecuteAsync in main at OFFENCE on stream 2, task 1
 * other: submitted aclmdlRIExecuteAsync in main at SUBMIT on stream 1, task 1
 * other: captured aclrtMemcpyAsync in main at CAPTURED
 * other: allocated aclrtMalloc in main at ALLOCATED
 * bytes: 0+4096 of device 4096
 */
#include "program.h"

constexpr size_t kSize = 4096;

int main()
{
    aclrtStream one = start(), two;
    aclrtEvent done;
    aclmdlRI step;
    void *host, *buffer;
    ACL(aclrtCreateStream(&two));
    ACL(aclrtCreateEvent(&done));
    ACL(aclrtMallocHost(&host, kSize));
    ACL(aclrtMalloc(&buffer, kSize, ACL_MEM_MALLOC_HUGE_FIRST)); // ALLOCATED

    ACL(aclmdlRICaptureBegin(one, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
    ACL(aclrtMemcpyAsync(buffer, kSize, host, kSize, ACL_MEMCPY_HOST_TO_DEVICE, one)); // CAPTURED
    ACL(aclmdlRICaptureEnd(one, &step));

    ACL(aclmdlRIExecuteAsync(step, one)); // SUBMIT
#ifdef FIXED
    ACL(aclrtRecordEvent(done, one));
    ACL(aclrtStreamWaitEvent(two, done));
#endif
    ACL(aclmdlRIExecuteAsync(step, two)); // OFFENCE

    ACL(aclrtSynchronizeStream(one));
    ACL(aclrtSynchronizeStream(two));
    ACL(aclmdlRIDestroy(step));
    ACL(aclrtDestroyEvent(done));
    ACL(aclrtDestroyStream(two));
    ACL(aclrtFreeHost(host));
    ACL(aclrtFree(buffer));
    finish(one);
}
