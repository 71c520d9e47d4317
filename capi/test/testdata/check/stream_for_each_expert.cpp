/*
 * Each expert of a layer is captured on a stream of its own, and there are 1100. A model may have 1024 streams: the
 * capture ends well, and the model cannot be executed.
 *
 * finds: streams-used-up (warning)
 * offence: called aclmdlRIExecuteAsync in main at OFFENCE
 * other: captured aclrtStreamWaitEvent in expert at JOINED
 * other: captured aclmdlRICaptureBegin in main at BEGAN
 */
#include <vector>

#include "program.h"

constexpr int kExperts = 1100;
constexpr size_t kSize = 64;
#ifdef FIXED
constexpr int kStreams = 16;
#else
constexpr int kStreams = kExperts;
#endif

static aclrtEvent event()
{
    aclrtEvent made;
    ACL(aclrtCreateEventExWithFlag(&made, ACL_EVENT_SYNC));
    return made;
}

static void expert(char *weights, aclrtStream stream, aclrtEvent routed)
{
    ACL(aclrtStreamWaitEvent(stream, routed)); // JOINED
    ACL(aclrtMemsetAsync(weights, kSize, 0, kSize, stream));
}

int main()
{
    aclrtStream stream = start();
    std::vector<aclrtStream> streams(kStreams);
    std::vector<aclrtEvent> done(kStreams);
    for (int i = 0; i < kStreams; i++) {
        ACL(aclrtCreateStream(&streams[i]));
        done[i] = event();
    }
    aclrtEvent routed = event();
    void *weights;
    ACL(aclrtMalloc(&weights, kExperts * kSize, ACL_MEM_MALLOC_HUGE_FIRST));

    aclmdlRI layer;
    ACL(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_RELAXED)); // BEGAN
    ACL(aclrtRecordEvent(routed, stream));
    for (int i = 0; i < kExperts; i++)
        expert(static_cast<char *>(weights) + i * kSize, streams[i % kStreams], routed);
    for (int i = 0; i < kStreams; i++) {
        ACL(aclrtRecordEvent(done[i], streams[i]));
        ACL(aclrtStreamWaitEvent(stream, done[i]));
    }
    ACL(aclmdlRICaptureEnd(stream, &layer));

    aclError code = aclmdlRIExecuteAsync(layer, stream); // OFFENCE
    if (code != ACL_SUCCESS)
        fprintf(stderr, "the layer does not run: %d\n", static_cast<int>(code));
    ACL(aclrtSynchronizeStream(stream));

    ACL(aclmdlRIDestroy(layer));
    for (int i = 0; i < kStreams; i++) {
        ACL(aclrtDestroyStream(streams[i]));
        ACL(aclrtDestroyEvent(done[i]));
    }
    ACL(aclrtDestroyEvent(routed));
    ACL(aclrtFree(weights));
    finish(stream);
}
