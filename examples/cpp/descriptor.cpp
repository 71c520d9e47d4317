// Descriptor copy: what to copy is written in device memory and read there when the copy runs, not when it is queued.
// So earlier work on the stream can still decide it. Products A2, A3, 950 and 310B have descriptors.
#include <algorithm>
#include <iostream>

#include "acl.hpp"

namespace {

constexpr aclrtMemcpyKind kind = ACL_MEMCPY_INNER_DEVICE_TO_DEVICE; // the only one there is for descriptors

// Its size depends on the product.
std::size_t descriptor_size()
{
    std::size_t size = 0;
    ACL(aclrtGetMemcpyDescSize(kind, &size));
    return size;
}

// Descriptor is in device memory at a multiple of 64, which aclrtMalloc sees to, and has to live
// until the copies queued with it are done.
class Descriptor {
public:
    template <typename T>
    Descriptor(const acl::DeviceBuffer<T>& from, const acl::DeviceBuffer<T>& to) : memory(descriptor_size())
    {
        // Written at once and not in the order of a stream. Mind the order of arguments: source, then target.
        ACL(aclrtSetMemcpyDesc(memory.data(), kind, from.data(), to.data(), to.bytes(), nullptr));
    }

    // Queues the copy. The default stream is not accepted here.
    void run(const acl::Stream& stream) const { ACL(aclrtMemcpyAsyncWithDesc(memory.data(), kind, stream.get())); }

    acl::DeviceBuffer<std::byte> memory;
};

} // namespace

int main()
{
    return acl::run([] {
        acl::Device device(0);
        constexpr std::size_t size = 4096;
        acl::HostBuffer<char> host(size);
        acl::DeviceBuffer<char> red(size), blue(size), target(size); // a descriptor copies within a device
        ACL(aclrtMemset(red.data(), size, 'r', size));
        ACL(aclrtMemset(blue.data(), size, 'b', size));
        Descriptor desc(red, target), other(blue, target);
        acl::Stream stream; // last, so that it goes first and waits for what uses the others

        auto all = [&](char color) {
            return std::count(host.begin(), host.end(), color) == static_cast<std::ptrdiff_t>(host.size());
        };

        desc.run(stream);
        stream.copy(host, target);
        stream.synchronize();
        acl::expect(all('r'), "the target should be red");
        std::cout << "The descriptor names red: " << size << " bytes of the target are red.\n";

        // Now the stream itself rewrites the descriptor before the device reads it: the call is the same as above.
        stream.copy(desc.memory, other.memory);
        desc.run(stream);
        stream.copy(host, target);
        stream.synchronize();
        acl::expect(all('b'), "the target should be blue");
        std::cout << "The stream rewrote the descriptor: the same call copied blue.\n";
    });
}
