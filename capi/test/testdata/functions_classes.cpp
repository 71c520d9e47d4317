// The library in C++: resources in classes, codes as exceptions, std::thread, and the overloads of acl_rt_api.h.
#include <acl/acl.h>
#include <acl/acl_rt_api.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "check.h"

namespace {

// failure is a code as an exception, with the text of the library.
struct failure : std::runtime_error {
	aclError code;
	explicit failure(aclError code) : std::runtime_error(text()), code(code) {}
	static std::string text()
	{
		const char *p = aclGetRecentErrMsg();
		return p != nullptr ? p : "";
	}
};

void ok(aclError code)
{
	if (code != ACL_SUCCESS)
		throw failure(code);
}

// live counts what the classes hold, so that unwinding can be seen to release everything.
std::atomic<int> live{0};

struct Library {
	Library() { ok(aclInit(nullptr)); }
	~Library() { aclFinalize(); }
	Library(const Library &) = delete;
	Library &operator=(const Library &) = delete;
};

struct Device {
	int32_t id;
	explicit Device(int32_t id) : id(id) { ok(aclrtSetDevice(id)), live++; }
	~Device() { aclrtResetDevice(id), live--; }
	Device(const Device &) = delete;
	Device &operator=(const Device &) = delete;
};

struct Stream {
	aclrtStream handle = nullptr;
	Stream() { ok(aclrtCreateStream(&handle)), live++; }
	~Stream() { aclrtDestroyStream(handle), live--; }
	Stream(const Stream &) = delete;
	Stream &operator=(const Stream &) = delete;
	void wait() { ok(aclrtSynchronizeStream(handle)); }
};

// Memory of n values; allocation goes through the overloads that take a pointer of any type.
template <typename T> struct DeviceMemory {
	T *p = nullptr;
	explicit DeviceMemory(size_t n) { ok(aclrtMalloc(&p, n * sizeof(T), ACL_MEM_MALLOC_HUGE_FIRST)), live++; }
	~DeviceMemory() { aclrtFree(p), live--; }
	DeviceMemory(const DeviceMemory &) = delete;
	DeviceMemory &operator=(const DeviceMemory &) = delete;
};

template <typename T> struct PinnedMemory {
	T *p = nullptr;
	explicit PinnedMemory(size_t n) { ok(aclrtMallocHost(&p, n * sizeof(T))), live++; }
	~PinnedMemory() { aclrtFreeHost(p), live--; }
	PinnedMemory(const PinnedMemory &) = delete;
	PinnedMemory &operator=(const PinnedMemory &) = delete;
};

constexpr size_t count = 1000, bytes = count * sizeof(float);

void there_and_back()
{
	Device device(0);
	Stream stream;
	PinnedMemory<float> up(count), down(count);
	DeviceMemory<float> there(count);
	std::iota(up.p, up.p + count, 1.0f);
	ok(aclrtMemcpyAsync(there.p, bytes, up.p, bytes, ACL_MEMCPY_HOST_TO_DEVICE, stream.handle));
	ok(aclrtMemcpyAsync(down.p, bytes, there.p, bytes, ACL_MEMCPY_DEVICE_TO_HOST, stream.handle));
	stream.wait();
	for (size_t i = 0; i < count; i++)
		CHECK(down.p[i] == 1.0f + static_cast<float>(i));
}

// An error becomes an exception, and unwinding releases everything while work is queued.
void unwinding()
{
	bool caught = false;
	try {
		Device device(1);
		Stream stream;
		DeviceMemory<int32_t> there(count);
		ok(aclrtMemsetAsync(there.p, count * sizeof(int32_t), 0, count * sizeof(int32_t), stream.handle));
		ok(aclrtMemcpyAsync(there.p, 1, there.p, 2, ACL_MEMCPY_DEFAULT, stream.handle)); // more than there is room for
		CHECK(!"an error was taken for success");
	} catch (const failure &e) {
		caught = true;
		CHECK(e.code == ACL_ERROR_RT_PARAM_INVALID);
		CHECK(std::string(e.what()).find("aclrtMemcpyAsync") != std::string::npos);
	}
	CHECK(caught && live == 0);
}

// Every call form of an allocation gives memory of its kind.
void overloads()
{
	Device device(0);
	double *dev = nullptr;
	uint16_t *pinned = nullptr;
	auto is = [](const void *p, aclrtMemLocationType type) {
		aclrtPtrAttributes at;
		ok(aclrtPointerGetAttributes(p, &at));
		return at.location.type == type;
	};
	auto freed = [&](aclError code) {
		ok(code);
		CHECK(is(dev, ACL_MEM_LOCATION_TYPE_DEVICE));
		ok(aclrtFree(dev));
	};
	freed(aclrtMalloc(&dev, bytes, ACL_MEM_MALLOC_NORMAL_ONLY));
	freed(aclrtMalloc(&dev, bytes));
	freed(aclrtMalloc(&dev, bytes, ACL_MEM_MALLOC_NORMAL_ONLY, nullptr));
	ok(aclrtMallocHost(&pinned, bytes));
	CHECK(is(pinned, ACL_MEM_LOCATION_TYPE_HOST));
	ok(aclrtFreeHost(pinned));
	ok(aclrtMallocHost(&pinned, bytes, nullptr));
	ok(aclrtFreeHost(pinned));
	IS(ACL_ERROR_INVALID_PARAM, aclrtMemAllocManaged(&dev, bytes, 0)); // the flag has to be ACL_RT_MEM_ATTACH_GLOBAL
	IS(ACL_ERROR_INVALID_PARAM, aclrtMalloc(&dev, 0, ACL_MEM_MALLOC_NORMAL_ONLY));
}

// Batches of typed addresses, with and without failIndex.
void batches()
{
	Device device(0);
	Stream stream;
	constexpr size_t n = 3;
	std::array<std::unique_ptr<DeviceMemory<float>>, n> dev;
	std::array<std::unique_ptr<PinnedMemory<float>>, n> host;
	std::array<float *, n> dsts, srcs;
	std::array<size_t, n> sizes;
	sizes.fill(bytes);
	for (size_t i = 0; i < n; i++) {
		dev[i] = std::make_unique<DeviceMemory<float>>(count);
		host[i] = std::make_unique<PinnedMemory<float>>(count);
		dsts[i] = dev[i]->p, srcs[i] = host[i]->p;
	}
	aclrtMemcpyBatchAttr attr{};
	attr.dstLoc.type = ACL_MEM_LOCATION_TYPE_DEVICE;
	attr.srcLoc.type = ACL_MEM_LOCATION_TYPE_HOST;
	size_t index = 0, fail = 99, *nowhere = nullptr;
	const std::vector<std::function<aclError()>> calls = {
		[&] { return aclrtMemcpyBatch(dsts.data(), sizes.data(), srcs.data(), sizes.data(), n, &attr, &index, 1); },
		[&] { return aclrtMemcpyBatch(dsts.data(), sizes.data(), srcs.data(), sizes.data(), n, &attr, &index, 1, nowhere); },
		[&] { return aclrtMemcpyBatchAsync(dsts.data(), sizes.data(), srcs.data(), sizes.data(), n, &attr, &index, 1, stream.handle); },
		[&] { return aclrtMemcpyBatchAsync(dsts.data(), sizes.data(), srcs.data(), sizes.data(), n, &attr, &index, 1, &fail, stream.handle); },
		[&] { return aclrtMemcpyBatch(dsts.data(), sizes.data(), srcs.data(), sizes.data(), n, attr); },
		[&] { return aclrtMemcpyBatchAsync(dsts.data(), sizes.data(), srcs.data(), sizes.data(), n, attr, stream.handle); },
		[&] { return aclrtMemcpyBatchAsync(dsts.data(), sizes.data(), srcs.data(), sizes.data(), n, attr, &fail, stream.handle); },
	};
	float value = 1;
	std::vector<float> back(count);
	for (const auto &call : calls) {
		for (size_t i = 0; i < n; i++)
			std::fill_n(srcs[i], count, ++value);
		ok(call());
		stream.wait();
		for (size_t i = 0; i < n; i++) {
			ok(aclrtMemcpy(back.data(), bytes, dsts[i], bytes, ACL_MEMCPY_DEVICE_TO_HOST));
			CHECK(back.front() == srcs[i][0] && back.back() == srcs[i][0]);
		}
		attr.srcLoc.type = ACL_MEM_LOCATION_TYPE_DEVICE; // not true
		IS(ACL_ERROR_RT_PARAM_INVALID, call());
		attr.srcLoc.type = ACL_MEM_LOCATION_TYPE_HOST;
	}
	CHECK(fail == 0); // the asynchronous forms that have failIndex write it
}

// std::thread is a thread like others: it begins without a context, and what it does is its own.
void threads()
{
	std::atomic<int> done{0};
	std::vector<std::thread> list;
	for (int i = 0; i < 4; i++)
		list.emplace_back([&done, i] {
			int32_t id = -1;
			CHECK(aclrtGetDevice(&id) == ACL_ERROR_RT_CONTEXT_NULL);
			Device device(i % 2);
			ok(aclrtGetDevice(&id));
			CHECK(id == i % 2);
			Stream stream;
			DeviceMemory<uint32_t> dev(count);
			std::vector<uint32_t> back(count);
			ok(aclrtMemsetD32Async(dev.p, count * 4, static_cast<uint32_t>(i), count, stream.handle));
			ok(aclrtMemcpyAsync(back.data(), count * 4, dev.p, count * 4, ACL_MEMCPY_DEVICE_TO_HOST, stream.handle));
			stream.wait();
			for (uint32_t v : back)
				CHECK(v == static_cast<uint32_t>(i));
			done++;
		});
	for (auto &t : list)
		t.join();
	CHECK(done == 4 && live == 0);
}

std::atomic<int> calls{0}, caught{0};

// Exceptions stay on their side of the library: a callback catches its own.
void callbacks()
{
	Device device(0);
	Stream stream;
	auto body = [](void *odd) {
		calls++;
		try {
			if (odd != nullptr)
				throw std::runtime_error("inside a callback");
		} catch (const std::runtime_error &) {
			caught++;
		}
	};
	for (int i = 0; i < 10; i++)
		ok(aclrtLaunchHostFunc(stream.handle, body, i % 2 ? &calls : nullptr));
	stream.wait();
	CHECK(calls == 10 && caught == 5);
}

} // namespace

int main()
{
	Library library;
	there_and_back();
	CHECK(live == 0);
	unwinding();
	overloads();
	batches();
	threads();
	callbacks();
	CHECK(live == 0);
	{
		Device device(0);
		while (aclGetRecentErrMsg() != nullptr) { // the library keeps a text until the next call
		}
	}
	return 0;
}
