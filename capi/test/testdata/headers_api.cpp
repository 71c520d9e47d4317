// Calls every overload of acl_rt_api.h over stand-ins of the C functions, which note that they were called.
#include "acl/acl_rt_api.h"

#include <cstdio>
#include <string>
#include <type_traits>

static std::string called;
static char memory[64];

static aclError give(const char* name, void** ptr)
{
    called += name;
    called += ' ';
    if (ptr == nullptr)
        return ACL_ERROR_INVALID_PARAM;
    *ptr = memory;
    return ACL_SUCCESS;
}

static aclError copy(const char* name, void** dsts, void** srcs, size_t* sizes, size_t n)
{
    called += name;
    called += ' ';
    for (size_t i = 0; i < n; i++)
        for (size_t b = 0; b < sizes[i]; b++)
            static_cast<char*>(dsts[i])[b] = static_cast<const char*>(srcs[i])[b];
    return ACL_SUCCESS;
}

extern "C" {
aclError aclrtMalloc(void** p, size_t, aclrtMemMallocPolicy) { return give("Malloc", p); }
aclError aclrtMallocAlign32(void** p, size_t, aclrtMemMallocPolicy) { return give("Align32", p); }
aclError aclrtMallocCached(void** p, size_t, aclrtMemMallocPolicy) { return give("Cached", p); }
aclError aclrtMallocWithCfg(void** p, size_t, aclrtMemMallocPolicy, aclrtMallocConfig*) { return give("WithCfg", p); }
aclError aclrtMallocHost(void** p, size_t) { return give("Host", p); }
aclError aclrtMallocHostWithCfg(void** p, uint64_t, aclrtMallocConfig*) { return give("HostWithCfg", p); }
aclError aclrtMemAllocManaged(void** p, uint64_t, uint32_t) { return give("Managed", p); }

aclError aclrtMemcpyBatch(void** d, size_t*, void** s, size_t* sizes, size_t n, aclrtMemcpyBatchAttr*, size_t*, size_t,
    size_t* failIndex)
{
    *failIndex = 7;
    return copy("Batch", d, s, sizes, n);
}
aclError aclrtMemcpyBatchV2(void** d, size_t*, void** s, size_t* sizes, size_t n, aclrtMemcpyBatchAttr*, size_t*, size_t)
{
    return copy("BatchV2", d, s, sizes, n);
}
aclError aclrtMemcpyBatchAsync(void** d, size_t*, void** s, size_t* sizes, size_t n, aclrtMemcpyBatchAttr*, size_t*, size_t,
    size_t* failIndex, aclrtStream)
{
    *failIndex = 8;
    return copy("Async", d, s, sizes, n);
}
aclError aclrtMemcpyBatchAsyncV2(void** d, size_t*, void** s, size_t* sizes, size_t n, aclrtMemcpyBatchAttr*, size_t*,
    size_t, aclrtStream stream)
{
    return stream == memory ? copy("AsyncV2", d, s, sizes, n) : ACL_ERROR_INVALID_PARAM;
}
}

static int failures;

static void want(bool ok, const char* what)
{
    if (!ok) {
        std::printf("wrong: %s\n", what);
        failures++;
    }
}

static void wantCalls(const char* names)
{
    if (called != names) {
        std::printf("called %s, want %s\n", called.c_str(), names);
        failures++;
    }
    called.clear();
}

static void allocations()
{
    const aclrtMemMallocPolicy policy = ACL_MEM_MALLOC_HUGE_FIRST;
    float* f = nullptr;
    const int* c = nullptr;
    void* v = nullptr;
    struct Node* incomplete = nullptr;
    want(aclrtMalloc(&f, 4, policy) == ACL_SUCCESS && static_cast<void*>(f) == memory, "a float* is set");
    want(aclrtMallocHost(&c, 4) == ACL_SUCCESS && static_cast<const void*>(c) == memory, "a const int* is set");
    want(aclrtMalloc(&v, 4, policy) == ACL_SUCCESS && v == memory, "a void* is set");
    wantCalls("Malloc Host Malloc ");
    aclrtMallocAlign32(&f, 4, policy);
    aclrtMallocCached(&f, 4, policy);
    aclrtMallocWithCfg(&f, 4, policy, nullptr);
    aclrtMallocHostWithCfg(&f, 4, nullptr);
    aclrtMemAllocManaged(&incomplete, 4, ACL_RT_MEM_ATTACH_GLOBAL);
    wantCalls("Align32 Cached WithCfg HostWithCfg Managed ");
    want(aclrtMalloc(nullptr, 4, policy) == ACL_ERROR_INVALID_PARAM, "nullptr goes to the C function");
    want(aclrtMalloc(static_cast<float**>(nullptr), 4, policy) == ACL_ERROR_INVALID_PARAM, "a null float** stays null");
    want(aclrtMalloc(reinterpret_cast<void**>(&f), 4, policy) == ACL_SUCCESS, "a cast to void** still works");
    called.clear();
}

static void batches()
{
    int dst[2] = {0, 0}, src[2] = {1, 2};
    int* dsts[] = {&dst[0], &dst[1]};
    const int* srcs[] = {&src[0], &src[1]};
    size_t sizes[] = {sizeof(int), sizeof(int)}, attrsIndexes[] = {0}, failIndex = 99;
    aclrtMemcpyBatchAttr attrs = {};
    aclrtStream stream = memory;

    want(aclrtMemcpyBatch(dsts, sizes, srcs, sizes, 2, &attrs, attrsIndexes, 1, &failIndex) == ACL_SUCCESS, "batch");
    want(aclrtMemcpyBatch(dsts, sizes, srcs, sizes, 2, &attrs, attrsIndexes, 1, nullptr) == ACL_SUCCESS, "batch, NULL");
    want(aclrtMemcpyBatch(dsts, sizes, srcs, sizes, 2, &attrs, attrsIndexes, 1) == ACL_SUCCESS, "batch without failIndex");
    wantCalls("BatchV2 BatchV2 BatchV2 ");
    want(dst[0] == 1 && dst[1] == 2, "every segment was copied");
    aclrtMemcpyBatchAsync(dsts, sizes, srcs, sizes, 2, &attrs, attrsIndexes, 1, &failIndex, stream);
    aclrtMemcpyBatchAsync(dsts, sizes, srcs, sizes, 2, &attrs, attrsIndexes, 1, stream);
    wantCalls("AsyncV2 AsyncV2 ");
    want(failIndex == 99, "failIndex is left alone");

    void* untypedDsts[] = {&dst[0], &dst[1]};
    void* untypedSrcs[] = {&src[0], &src[1]};
    aclrtMemcpyBatch(untypedDsts, sizes, untypedSrcs, sizes, 2, &attrs, attrsIndexes, 1, &failIndex);
    want(failIndex == 7, "lists of void* go to the C function");
    aclrtMemcpyBatchAsync(untypedDsts, sizes, untypedSrcs, sizes, 2, &attrs, attrsIndexes, 1, &failIndex, stream);
    want(failIndex == 8, "and so do asynchronous ones");
    aclrtMemcpyBatch(untypedDsts, sizes, srcs, sizes, 2, &attrs, attrsIndexes, 1, &failIndex);
    wantCalls("Batch Async BatchV2 ");
}

// Error codes have the types of the vendor's constants and can be bound to references.
template <typename T, typename U>
static bool same(const T& a, const U& b)
{
    return std::is_same<T, U>::value && a == b;
}

int main()
{
    allocations();
    batches();
    want(same(aclrtMallocHost(nullptr, 1), ACL_ERROR_INVALID_PARAM), "a code is an int");
    want(same(uint32_t(145000), ACL_ERROR_GE_PARAM_INVALID), "a code of the graph engine is a uint32_t");
    return failures;
}
