/*
 * A watchdog thread asks all streams whether they are done, also the one that the main thread is capturing.
 *
 * finds: broken-capture (error)
 * offence: called aclrtStreamQuery in watch at OFFENCE
 * other: began aclmdlRICaptureBegin in main at BEGAN
 */
#include <thread>

#include "program.h"

constexpr size_t kSize = 4096;

static void watch(aclrtContext context, aclrtStream stream)
{
    aclrtStreamStatus status;
    ACL(aclrtSetCurrentContext(context));
    if (aclrtStreamQuery(stream, &status) != ACL_SUCCESS) // OFFENCE
        fprintf(stderr, "watchdog: the state of a stream is not known\n");
}

int main()
{
    aclrtStream stream = start();
    aclrtContext context;
    aclmdlRI step;
    void *host, *device;
    ACL(aclrtGetCurrentContext(&context));
    ACL(aclrtMallocHost(&host, kSize));
    ACL(aclrtMalloc(&device, kSize, ACL_MEM_MALLOC_HUGE_FIRST));

    ACL(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_RELAXED)); // BEGAN
    ACL(aclrtMemcpyAsync(device, kSize, host, kSize, ACL_MEMCPY_HOST_TO_DEVICE, stream));
#ifndef FIXED
    std::thread(watch, context, stream).join();
#endif
    ACL(aclmdlRICaptureEnd(stream, &step));
#ifdef FIXED
    std::thread(watch, context, stream).join();
#endif

    ACL(aclmdlRIExecuteAsync(step, stream));
    ACL(aclrtSynchronizeStream(stream));
    ACL(aclmdlRIDestroy(step));
    ACL(aclrtFreeHost(host));
    ACL(aclrtFree(device));
    finish(stream);
}
