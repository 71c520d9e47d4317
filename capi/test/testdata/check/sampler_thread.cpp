/*
 * A thread that knows nothing of ACL picks a token from logits whose copy is pending.
 *
 * finds: host-read-in-flight (error)
 * offence: read in sample at OFFENCE
 * other: submitted aclrtMemcpyAsync in main at SUBMIT on stream 1, task 1
 * other: allocated aclrtMallocHost in main at ALLOCATED
 * bytes: 0+4 of pinned 4096
 */
#include <thread>

#include "program.h"

constexpr size_t kVocabulary = 1024, kSize = kVocabulary * sizeof(float);

static void sample(const float *logits, size_t *token)
{
    float best = -1;
    for (size_t i = 0; i < kVocabulary; i++) {
        float score = logits[i]; // OFFENCE
        if (score > best)
            best = score, *token = i;
    }
}

int main()
{
    aclrtStream stream = start();
    void *logits, *device;
    ACL(aclrtMallocHost(&logits, kSize)); // ALLOCATED
    ACL(aclrtMalloc(&device, kSize, ACL_MEM_MALLOC_HUGE_FIRST));
    ACL(aclrtMemset(device, kSize, 0, kSize));

    size_t token = 0;
    ACL(aclrtMemcpyAsync(logits, kSize, device, kSize, ACL_MEMCPY_DEVICE_TO_HOST, stream)); // SUBMIT
#ifdef FIXED
    ACL(aclrtSynchronizeStream(stream));
#endif
    std::thread sampler(sample, static_cast<const float *>(logits), &token);
    sampler.join();
    printf("token %zu\n", token);

    ACL(aclrtSynchronizeStream(stream));
    ACL(aclrtFreeHost(logits));
    ACL(aclrtFree(device));
    finish(stream);
}
