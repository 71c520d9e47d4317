// Calls every form of acl_rt_api.h over stand-ins of the C functions, which note their name and their arguments.
#ifdef INSIDE_EXTERN_C
extern "C" {
#include "acl/acl_rt_api.h"
}
#else
#include "acl/acl_rt_api.h"
#endif

#include <cstdio>
#include <cstring>
#include <sstream>
#include <string>
#include <type_traits>

static std::string called;
static const aclError result = 4711; // what every stand-in returns

static void list(std::ostream&) {}

template <typename T, typename... Rest>
static void list(std::ostream& out, T first, Rest... rest)
{
    out << ' ' << first;
    list(out, rest...);
}

template <typename... Args>
static std::string text(const char* name, Args... args)
{
    std::ostringstream out;
    out << name;
    list(out, args...);
    return out.str();
}

template <typename... Args>
static aclError note(const char* name, Args... args)
{
    called = text(name, args...);
    return result;
}

// An attribute as text: it may have been copied, so its address says nothing.
static std::string show(const aclrtMemcpyBatchAttr* a) { return text("attr", a->dstLoc.id, a->srcLoc.id); }
static std::string show(aclrtMemManagedLocation l) { return text("location", l.id, static_cast<int>(l.type)); }

extern "C" {
aclError aclrtSynchronizeDeviceWithTimeout(int32_t ms) { return note("DeviceWithTimeout", ms); }
aclError aclrtSynchronizeStreamWithTimeout(aclrtStream s, int32_t ms) { return note("StreamWithTimeout", s, ms); }
aclError aclrtSynchronizeEventWithTimeout(aclrtEvent e, int32_t ms) { return note("EventWithTimeout", e, ms); }
aclError aclrtStreamWaitEventWithTimeout(aclrtStream s, aclrtEvent e, int32_t ms) { return note("WaitWithTimeout", s, e, ms); }
aclError aclrtCreateStreamWithConfig(aclrtStream* s, uint32_t p, uint32_t f) { return note("StreamWithConfig", s, p, f); }
aclError aclrtSetOpExecuteTimeOutV2(uint64_t t, uint64_t* actual) { return note("TimeOutV2", t, actual); }
aclError aclrtCreateEventExWithFlag(aclrtEvent* e, uint32_t f) { return note("EventExWithFlag", e, f); }

aclError aclrtSynchronizeDevice(void) { return note("Device"); }
aclError aclrtSynchronizeStream(aclrtStream s) { return note("Stream", s); }
aclError aclrtCreateEvent(aclrtEvent* e) { return note("Event", e); }

aclError aclrtMalloc(void** p, size_t n, aclrtMemMallocPolicy y) { return note("Malloc", p, n, static_cast<int>(y)); }
aclError aclrtMallocWithCfg(void** p, size_t n, aclrtMemMallocPolicy y, aclrtMallocConfig* c)
{
    return note("WithCfg", p, n, static_cast<int>(y), c);
}
aclError aclrtMallocHost(void** p, size_t n) { return note("Host", p, n); }
aclError aclrtMallocHostWithCfg(void** p, uint64_t n, aclrtMallocConfig* c) { return note("HostWithCfg", p, n, c); }
aclError aclrtMemAllocManaged(void** p, uint64_t n, uint32_t f) { return note("Managed", p, n, f); }

aclError aclrtMemcpy(void* d, size_t m, const void* s, size_t n, aclrtMemcpyKind k)
{
    return note("Memcpy", d, m, s, n, static_cast<int>(k));
}
aclError aclrtMemcpyAsync(void* d, size_t m, const void* s, size_t n, aclrtMemcpyKind k, aclrtStream t)
{
    return note("Async", d, m, s, n, static_cast<int>(k), t);
}
aclError aclrtMemcpy2d(void* d, size_t dp, const void* s, size_t sp, size_t w, size_t h, aclrtMemcpyKind k)
{
    return note("2d", d, dp, s, sp, w, h, static_cast<int>(k));
}
aclError aclrtMemcpy2dAsync(void* d, size_t dp, const void* s, size_t sp, size_t w, size_t h, aclrtMemcpyKind k, aclrtStream t)
{
    return note("2dAsync", d, dp, s, sp, w, h, static_cast<int>(k), t);
}

aclError aclrtMemcpyBatch(void** d, size_t* m, void** s, size_t* z, size_t n, aclrtMemcpyBatchAttr* a, size_t* i, size_t na, size_t* f)
{
    return note("Batch", d, m, s, z, n, show(a), *i, na, f);
}
aclError aclrtMemcpyBatchV2(void** d, size_t* m, void** s, size_t* z, size_t n, aclrtMemcpyBatchAttr* a, size_t* i, size_t na)
{
    return note("BatchV2", d, m, s, z, n, show(a), *i, na);
}
aclError aclrtMemcpyBatchAsync(void** d, size_t* m, void** s, size_t* z, size_t n, aclrtMemcpyBatchAttr* a, size_t* i, size_t na,
    size_t* f, aclrtStream t)
{
    return note("BatchAsync", d, m, s, z, n, show(a), *i, na, f, t);
}
aclError aclrtMemcpyBatchAsyncV2(void** d, size_t* m, void** s, size_t* z, size_t n, aclrtMemcpyBatchAttr* a, size_t* i, size_t na,
    aclrtStream t)
{
    return note("BatchAsyncV2", d, m, s, z, n, show(a), *i, na, t);
}

aclError aclrtPointerGetAttributes(const void* p, aclrtPtrAttributes* a) { return note("Attributes", p, a); }
aclError aclrtHostRegister(void* p, uint64_t n, aclrtHostRegisterType t, void** d)
{
    return note("Register", p, n, static_cast<int>(t), d);
}
aclError aclrtHostRegisterV2(void* p, uint64_t n, uint32_t f) { return note("RegisterV2", p, n, f); }
aclError aclrtHostGetDevicePointer(void* h, void** d, uint32_t f) { return note("DevicePointer", h, d, f); }
aclError aclrtHostUnregister(void* p) { return note("Unregister", p); }
aclError aclrtMemManagedPrefetchAsync(const void* p, size_t n, aclrtMemManagedLocation l, uint32_t f, aclrtStream t)
{
    return note("Prefetch", p, n, show(l), f, t);
}
aclError aclrtMemManagedPrefetchBatchAsync(const void** p, size_t* z, size_t n, aclrtMemManagedLocation* l, size_t* i, size_t nl,
    uint64_t f, aclrtStream t)
{
    return note("PrefetchBatch", p, z, n, show(*l), *i, nl, f, t);
}
aclError aclrtGetSymbolAddress(const void* s, void** d) { return note("SymbolAddress", s, d); }
aclError aclrtGetSymbolSize(const void* s, size_t* n) { return note("SymbolSize", s, n); }
aclError aclrtMemcpyFromSymbol(void* d, size_t m, const void* s, size_t n, size_t o, aclrtMemcpyKind k)
{
    return note("FromSymbol", d, m, s, n, o, static_cast<int>(k));
}
aclError aclrtMemcpyFromSymbolAsync(void* d, size_t m, const void* s, size_t n, size_t o, aclrtMemcpyKind k, aclrtStream t)
{
    return note("FromSymbolAsync", d, m, s, n, o, static_cast<int>(k), t);
}
aclError aclrtMemcpyToSymbol(const void* s, const void* p, size_t n, size_t o, aclrtMemcpyKind k)
{
    return note("ToSymbol", s, p, n, o, static_cast<int>(k));
}
aclError aclrtMemcpyToSymbolAsync(const void* s, const void* p, size_t n, size_t o, aclrtMemcpyKind k, aclrtStream t)
{
    return note("ToSymbolAsync", s, p, n, o, static_cast<int>(k), t);
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

// A call whose result is that of the C function, and what the C function was called with.
template <typename... Args>
static void calls(aclError got, const char* name, Args... args)
{
    const std::string wanted = text(name, args...);
    if (got != result || called != wanted) {
        std::printf("%d from %s, want %s\n", got, called.c_str(), wanted.c_str());
        failures++;
    }
    called.clear();
}

static char streamItself, eventItself;
static const aclrtStream stream = &streamItself;
static const aclrtEvent event = &eventItself;

static void plain()
{
    aclrtStream s;
    aclrtEvent e;
    uint64_t actual;
    calls(aclrtSynchronizeDevice(7), "DeviceWithTimeout", 7);
    calls(aclrtSynchronizeStream(stream, -1), "StreamWithTimeout", stream, -1);
    calls(aclrtSynchronizeEvent(event, 8), "EventWithTimeout", event, 8);
    calls(aclrtStreamWaitEvent(stream, event, 9), "WaitWithTimeout", stream, event, 9);
    calls(aclrtCreateStream(&s, 3, ACL_STREAM_FAST_SYNC), "StreamWithConfig", &s, 3, ACL_STREAM_FAST_SYNC);
    calls(aclrtSetOpExecuteTimeOut(5, &actual), "TimeOutV2", 5, &actual);
    calls(aclrtCreateEvent(&e, ACL_EVENT_SYNC), "EventExWithFlag", &e, ACL_EVENT_SYNC);
    calls(aclrtSynchronizeDevice(), "Device");
    calls(aclrtSynchronizeStream(stream), "Stream", stream);
    calls(aclrtCreateEvent(&e), "Event", &e);
}

static void allocations()
{
    const aclrtMemMallocPolicy policy = ACL_MEM_MALLOC_NORMAL_ONLY;
    const int first = ACL_MEM_MALLOC_HUGE_FIRST, only = policy;
    aclrtMallocConfig config = {}, *none = nullptr;
    float* f = nullptr;
    void* v = nullptr;
    struct Node* incomplete = nullptr;
    void** fp = reinterpret_cast<void**>(&f);
    calls(aclrtMalloc(&f, 4), "WithCfg", fp, 4, first, none);
    calls(aclrtMalloc(&f, 4, &config), "WithCfg", fp, 4, first, &config);
    calls(aclrtMalloc(&f, 4, nullptr), "WithCfg", fp, 4, first, none);
    calls(aclrtMalloc(&v, 4), "WithCfg", &v, 4, first, none);
    calls(aclrtMalloc(&f, 4, policy), "WithCfg", fp, 4, only, none);
    calls(aclrtMalloc(&f, 4, policy, &config), "WithCfg", fp, 4, only, &config);
    calls(aclrtMalloc(&v, 4, policy), "Malloc", &v, 4, only);
    calls(aclrtMalloc(fp, 4, policy), "Malloc", fp, 4, only);
    calls(aclrtMalloc(nullptr, 4, policy), "Malloc", static_cast<void**>(nullptr), 4, only);
    calls(aclrtMallocHost(&f, 4), "HostWithCfg", fp, 4, none);
    calls(aclrtMallocHost(&f, 4, &config), "HostWithCfg", fp, 4, &config);
    calls(aclrtMallocHost(&v, 4), "Host", &v, 4);
    calls(aclrtMemAllocManaged(&incomplete, 4), "Managed", reinterpret_cast<void**>(&incomplete), 4, ACL_RT_MEM_ATTACH_GLOBAL);
    calls(aclrtMemAllocManaged(&f, 4, 2), "Managed", fp, 4, 2);
}

static void copies()
{
    float d[4] = {};
    const int s[4] = {};
    void* to = d;
    const void* from = s;
    const aclrtMemcpyKind up = ACL_MEMCPY_HOST_TO_DEVICE;
    const int k = up;
    calls(aclrtMemcpy(d, 16, s, 8, up), "Memcpy", to, 16, from, 8, k);
    calls(aclrtMemcpy(to, 16, s, 8, up), "Memcpy", to, 16, from, 8, k);
    calls(aclrtMemcpy(d, 16, nullptr, 8, up), "Memcpy", to, 16, static_cast<const void*>(nullptr), 8, k);
    calls(aclrtMemcpyAsync(d, 16, s, 8, up, stream), "Async", to, 16, from, 8, k, stream);
    calls(aclrtMemcpy2d(d, 16, s, 8, 4, 2, up), "2d", to, 16, from, 8, 4, 2, k);
    calls(aclrtMemcpy2dAsync(d, 16, s, 8, 4, 2, up, stream), "2dAsync", to, 16, from, 8, 4, 2, k, stream);
}

static void batches()
{
    int dst[2] = {}, src[2] = {};
    int* dsts[] = {&dst[0], &dst[1]};
    float* srcs[] = {nullptr, nullptr};
    void** d = reinterpret_cast<void**>(dsts);
    void** s = reinterpret_cast<void**>(srcs);
    size_t maxs[] = {4, 4}, sizes[] = {4, 4}, index[] = {6}, fail = 99;
    aclrtMemcpyBatchAttr attr = {};
    attr.dstLoc.id = 3;
    attr.srcLoc.id = 5;
    const std::string a = show(&attr);
    calls(aclrtMemcpyBatch(dsts, maxs, srcs, sizes, 2, attr), "BatchV2", d, maxs, s, sizes, 2, a, 0, 1);
    calls(aclrtMemcpyBatch(dsts, maxs, srcs, sizes, 2, attr, &fail), "BatchV2", d, maxs, s, sizes, 2, a, 0, 1);
    calls(aclrtMemcpyBatch(dsts, maxs, srcs, sizes, 2, &attr, index, 1), "BatchV2", d, maxs, s, sizes, 2, a, 6, 1);
    calls(aclrtMemcpyBatch(dsts, maxs, srcs, sizes, 2, &attr, index, 1, &fail), "BatchV2", d, maxs, s, sizes, 2, a, 6, 1);
    calls(aclrtMemcpyBatchAsync(dsts, maxs, srcs, sizes, 2, attr, stream), "BatchAsyncV2", d, maxs, s, sizes, 2, a, 0, 1, stream);
    calls(aclrtMemcpyBatchAsync(dsts, maxs, srcs, sizes, 2, &attr, index, 1, stream), "BatchAsyncV2", d, maxs, s, sizes, 2, a, 6, 1,
        stream);
    calls(aclrtMemcpyBatchAsync(dsts, maxs, srcs, sizes, 2, attr, &fail, stream), "BatchAsync", d, maxs, s, sizes, 2, a, 0, 1, &fail,
        stream);
    calls(aclrtMemcpyBatchAsync(dsts, maxs, srcs, sizes, 2, &attr, index, 1, &fail, stream), "BatchAsync", d, maxs, s, sizes, 2, a, 6,
        1, &fail, stream);
    want(fail == 99, "failIndex is left alone");

    void* untypedDsts[] = {&dst[0], &dst[1]};
    void* untypedSrcs[] = {&src[0], &src[1]};
    calls(aclrtMemcpyBatch(untypedDsts, maxs, untypedSrcs, sizes, 2, &attr, index, 1, &fail), "Batch", untypedDsts, maxs, untypedSrcs,
        sizes, 2, a, 6, 1, &fail);
    calls(aclrtMemcpyBatchAsync(untypedDsts, maxs, untypedSrcs, sizes, 2, &attr, index, 1, &fail, stream), "BatchAsync", untypedDsts,
        maxs, untypedSrcs, sizes, 2, a, 6, 1, &fail, stream);
}

static void addresses()
{
    float f[2] = {};
    const float c[2] = {};
    float* mapped = nullptr;
    void* untyped = nullptr;
    void* p = f;
    void** m = reinterpret_cast<void**>(&mapped);
    aclrtPtrAttributes attributes;
    const aclrtHostRegisterType type = ACL_HOST_REGISTER_MAPPED;
    const int t = type;
    calls(aclrtPointerGetAttributes(c, &attributes), "Attributes", static_cast<const void*>(c), &attributes);
    calls(aclrtHostRegister(f, 8, type, &mapped), "Register", p, 8, t, m);
    calls(aclrtHostRegister(f, 8, type, &untyped), "Register", p, 8, t, &untyped);
    calls(aclrtHostRegister(f, 8, 2), "RegisterV2", p, 8, 2);
    calls(aclrtHostRegister(p, 8, 0), "RegisterV2", p, 8, 0);
    calls(aclrtHostGetDevicePointer(f, &mapped, 0), "DevicePointer", p, m, 0);
    calls(aclrtHostGetDevicePointer(f, &untyped, 0), "DevicePointer", p, &untyped, 0);
    calls(aclrtHostUnregister(f), "Unregister", p);
}

static void managed()
{
    const float f[2] = {};
    const float* list[] = {f, f + 1};
    const void** p = reinterpret_cast<const void**>(list);
    size_t sizes[] = {4, 4}, index[] = {6};
    aclrtMemManagedLocation place = {};
    place.id = 2;
    const std::string at = show(place);
    calls(aclrtMemManagedPrefetchAsync(f, 8, place, 1, stream), "Prefetch", static_cast<const void*>(f), 8, at, 1, stream);
    calls(aclrtMemManagedPrefetchBatchAsync(list, sizes, 2, place, 1, stream), "PrefetchBatch", p, sizes, 2, at, 0, 1, 1, stream);
    calls(aclrtMemManagedPrefetchBatchAsync(list, sizes, 2, &place, index, 1, 1, stream), "PrefetchBatch", p, sizes, 2, at, 6, 1, 1,
        stream);
}

static void symbols()
{
    static int number, row[4];
    int* pointer = row;
    char host[16];
    void* device;
    size_t size;
    const void *n = &number, *r = row, *v = &pointer;
    const aclrtMemcpyKind up = ACL_MEMCPY_HOST_TO_DEVICE, down = ACL_MEMCPY_DEVICE_TO_HOST;
    const int u = up, w = down;
    calls(aclrtGetSymbolAddress(number, &device), "SymbolAddress", n, &device);
    calls(aclrtGetSymbolAddress(row, &device), "SymbolAddress", r, &device);
    calls(aclrtGetSymbolAddress(r, &device), "SymbolAddress", r, &device);
    calls(aclrtGetSymbolAddress(pointer, &device), "SymbolAddress", v, &device);
    calls(aclrtGetSymbolSize(row, &size), "SymbolSize", r, &size);
    void* to = host;
    const void* from = host;
    calls(aclrtMemcpyFromSymbol(host, 16, row, 8, 4, down), "FromSymbol", to, 16, r, 8, 4, w);
    calls(aclrtMemcpyFromSymbolAsync(host, 16, row, 8, 4, down, stream), "FromSymbolAsync", to, 16, r, 8, 4, w, stream);
    calls(aclrtMemcpyToSymbol(number, host, 4, 0, up), "ToSymbol", n, from, 4, 0, u);
    calls(aclrtMemcpyToSymbolAsync(number, host, 4, 0, up, stream), "ToSymbolAsync", n, from, 4, 0, u, stream);
}

// Error codes have the types of the vendor's constants and can be bound to references.
template <typename T, typename U>
static bool same(const T& a, const U& b)
{
    return std::is_same<T, U>::value && a == b;
}

static bool is(dim3 d, uint32_t x, uint32_t y, uint32_t z) { return d.x == x && d.y == y && d.z == z; }

static void dimensions()
{
    dim3 nothing, braces{};
    constexpr dim3 fixed(2, 3);
    static_assert(fixed.x == 2 && fixed.z == 1, "a constant");
    static_assert(sizeof(dim3) == 12 && std::is_standard_layout<dim3>::value, "the struct of C");
    static_assert(std::is_trivially_copyable<dim3>::value && !std::is_trivially_default_constructible<dim3>::value, "with a default");
    want(is(nothing, 1, 1, 1) && is(braces, 1, 1, 1), "dim3 is 1, 1, 1 from the start");
    want(is(8, 8, 1, 1) && is({4, 5}, 4, 5, 1) && is({4, 5, 6}, 4, 5, 6), "dim3 of one, two and three numbers");
}

int main()
{
    plain();
    allocations();
    copies();
    batches();
    addresses();
    managed();
    symbols();
    dimensions();
    want(same(aclError(100000), ACL_ERROR_INVALID_PARAM), "a code is an int");
    want(same(uint32_t(145000), ACL_ERROR_GE_PARAM_INVALID), "a code of the graph engine is a uint32_t");
    want(ACL_MODEL_STREAM_FLAG_HEAD == 0 && ACL_MODEL_STREAM_FLAG_DEFAULT == 0x7FFFFFFFU, "the flags of a model's streams");
    return failures != 0;
}
