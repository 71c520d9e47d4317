// RAII for the parts of AscendCL that the examples use: what is made is freed, also when an exception is thrown.
//
// Objects are destroyed in the opposite order of their declaration, and ~Stream waits for its work. So declare buffers
// before the streams that use them: an exception can then not free memory under a running copy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <utility>

#include <acl/acl.h>
#include <acl/acl_rt_api.h> // aclrtMalloc and aclrtMallocHost for pointers of any type

namespace acl {

// Error is a call that did not succeed: its code, and the library's own words in what().
class Error : public std::runtime_error {
public:
    Error(aclError code, const std::string& text) : std::runtime_error(text), code(code) {}
    const aclError code;
};

inline void check(aclError code, const char* call)
{
    if (code == ACL_SUCCESS)
        return;
    const char* why = aclGetRecentErrMsg(); // of this thread; nullptr if there is nothing more to say
    throw Error(code, std::string(call) + ": error " + std::to_string(code) + (why ? std::string("\n") + why : ""));
}

// ACL(call) returns if the call succeeded, and throws acl::Error otherwise.
#define ACL(call) ::acl::check((call), #call)

// Owner of a handle that a function takes back. A destructor must not throw, so a failure there is only told.
template <typename T, aclError (*give_back)(T)>
class Owner {
public:
    explicit Owner(T owned) : owned_(owned) {}
    Owner(Owner&& other) noexcept : owned_(std::exchange(other.owned_, T{})) {}
    Owner& operator=(Owner&& other) noexcept
    {
        std::swap(owned_, other.owned_);
        return *this;
    }
    ~Owner()
    {
        if (owned_ == T{})
            return;
        if (aclError code = give_back(owned_))
            std::fprintf(stderr, "freeing failed: error %d\n", code);
    }

protected:
    T owned_;
};

// Device: initialises the library and makes a device current for this thread. Declare it first, in main.
class Device {
public:
    explicit Device(int id) : id_(id)
    {
        ACL(aclInit(nullptr));
        ACL(aclrtSetDevice(id_));
    }
    Device(const Device&) = delete;
    Device& operator=(const Device&) = delete;
    ~Device()
    {
        aclrtResetDevice(id_);
        aclFinalize();
    }

private:
    int id_;
};

// Buffer of count elements, not initialised.
template <typename T, aclError (*give_back)(void*)>
class Buffer : Owner<void*, give_back> {
public:
    T* data() const { return static_cast<T*>(this->owned_); }
    std::size_t size() const { return count_; }              // in elements
    std::size_t bytes() const { return count_ * sizeof(T); } // what AscendCL counts in

protected:
    Buffer(T* memory, std::size_t count) : Owner<void*, give_back>(memory), count_(count) {}
    std::size_t count_;
};

// DeviceBuffer: the host must not touch what data() points to.
template <typename T>
struct DeviceBuffer : Buffer<T, aclrtFree> {
    explicit DeviceBuffer(std::size_t count) : Buffer<T, aclrtFree>(take(count * sizeof(T)), count) {}

private:
    static T* take(std::size_t bytes)
    {
        T* memory = nullptr;
        ACL(aclrtMalloc(&memory, bytes, ACL_MEM_MALLOC_HUGE_FIRST));
        return memory;
    }
};

// HostBuffer is pinned, so that copies with it are asynchronous. A std::vector would make them wait.
template <typename T>
struct HostBuffer : Buffer<T, aclrtFreeHost> {
    explicit HostBuffer(std::size_t count) : Buffer<T, aclrtFreeHost>(take(count * sizeof(T)), count) {}
    T& operator[](std::size_t i) const { return this->data()[i]; }
    T* begin() const { return this->data(); }
    T* end() const { return this->data() + this->size(); }

private:
    static T* take(std::size_t bytes)
    {
        T* memory = nullptr;
        ACL(aclrtMallocHost(&memory, bytes));
        return memory;
    }
};

// Event that needs no reset: a wait means the latest record before it, and passes at once if there was none.
class Event : Owner<aclrtEvent, aclrtDestroyEvent> {
public:
    Event() : Owner(make()) {}
    aclrtEvent get() const { return owned_; }

private:
    static aclrtEvent make()
    {
        aclrtEvent event = nullptr;
        ACL(aclrtCreateEventExWithFlag(&event, ACL_EVENT_SYNC));
        return event;
    }
};

// Stream: its destructor waits for what is queued on it.
class Stream : Owner<aclrtStream, aclrtDestroyStream> {
public:
    Stream() : Owner(make()) {}
    aclrtStream get() const { return owned_; }

    // The direction follows from where the memory is. Both buffers belong to the stream until it is synchronised.
    template <typename To, typename From>
    void copy(const To& to, const From& from)
    {
        ACL(aclrtMemcpyAsync(to.data(), to.bytes(), from.data(), from.bytes(), ACL_MEMCPY_DEFAULT, owned_));
    }
    void record(const Event& event) { ACL(aclrtRecordEvent(event.get(), owned_)); }
    void wait(const Event& event) { ACL(aclrtStreamWaitEvent(owned_, event.get())); }

    // Queues a kernel. Its arguments, each of 8 bytes, are copied by the call.
    template <typename... Args>
    void launch(aclrtFuncHandle kernel, std::uint32_t blocks, Args... args)
    {
        std::uint64_t words[] = {(std::uint64_t)args...};
        ACL(aclrtLaunchKernelWithHostArgs(kernel, blocks, owned_, nullptr, words, sizeof words, nullptr, 0));
    }

    // Returns when all is done, or throws what failed since the last time.
    void synchronize() { ACL(aclrtSynchronizeStream(owned_)); }

private:
    static aclrtStream make()
    {
        aclrtStream stream = nullptr;
        ACL(aclrtCreateStream(&stream));
        return stream;
    }
};

// Model is what was submitted to a stream while a function ran; nothing of it ran then. Other streams take part in the
// capture when they wait for an event that was recorded in it, and have to be waited for at its end.
class Model : Owner<aclmdlRI, aclmdlRIDestroy> {
public:
    template <typename Function>
    Model(const Stream& stream, Function capture) : Owner(make(stream, capture)) {}

    // Queues one run. Memory is used when it runs, so it must outlive the model.
    void execute(const Stream& stream) const { ACL(aclmdlRIExecuteAsync(owned_, stream.get())); }

private:
    template <typename Function>
    static aclmdlRI make(const Stream& stream, Function capture)
    {
        aclmdlRI model = nullptr;
        ACL(aclmdlRICaptureBegin(stream.get(), ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL));
        try {
            capture();
        } catch (...) {
            if (aclmdlRICaptureEnd(stream.get(), &model) == ACL_SUCCESS)
                aclmdlRIDestroy(model);
            throw;
        }
        ACL(aclmdlRICaptureEnd(stream.get(), &model));
        return model;
    }
};

// Binary is a loaded file of kernels.
class Binary : Owner<aclrtBinHandle, aclrtBinaryUnLoad> {
public:
    explicit Binary(const std::string& path) : Owner(load(path)) {}

    aclrtFuncHandle function(const char* name) const
    {
        aclrtFuncHandle found = nullptr;
        ACL(aclrtBinaryGetFunction(owned_, name, &found));
        return found;
    }

private:
    static aclrtBinHandle load(const std::string& path)
    {
        aclrtBinHandle binary = nullptr;
        ACL(aclrtBinaryLoadFromFile(path.c_str(), nullptr, &binary));
        return binary;
    }
};

// beside is the path of a file in the folder of a program.
inline std::string beside(const std::string& program, const char* file)
{
    return program.substr(0, program.rfind('/') + 1) + file;
}

// run is main: it turns an exception into a clear line and an exit code.
template <typename Program>
int run(Program program)
{
    try {
        program();
        return 0;
    } catch (const std::exception& e) {
        std::fprintf(stderr, "%s\n", e.what());
        return 1;
    }
}

inline void expect(bool holds, const char* what)
{
    if (!holds)
        throw std::runtime_error(std::string("wrong: ") + what);
}

} // namespace acl
