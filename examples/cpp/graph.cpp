// A step is captured once and run a thousand times: two streams move blocks to the device, put them in reverse order there
// and bring the result back. Nothing runs while it is captured; each run is one call.
#include <algorithm>
#include <iostream>

#include "acl.hpp"

namespace {

constexpr std::size_t blocks = 64, block = 4096, bytes = blocks * block;
constexpr int runs = 1000;

using Byte = unsigned char;

void copy(const acl::Stream& stream, Byte* to, const Byte* from, std::size_t n)
{
    ACL(aclrtMemcpyAsync(to, n, from, n, ACL_MEMCPY_DEFAULT, stream.get()));
}

} // namespace

int main()
{
    return acl::run([] {
        acl::Device device(0);
        acl::HostBuffer<Byte> in(bytes), out(bytes); // pinned: other memory cannot be captured
        acl::DeviceBuffer<Byte> there(bytes), reversed(bytes);
        acl::Event fork, join;
        acl::Stream first, second;

        const acl::Model step(first, [&] {
            for (std::size_t i = 0; i < blocks; i++)
                copy(first, there.data() + i * block, in.data() + i * block, block);
            first.record(fork);
            second.wait(fork); // the second stream joins the capture
            for (std::size_t i = 0; i < blocks; i++)
                copy(second, reversed.data() + i * block, there.data() + (blocks - 1 - i) * block, block);
            second.record(join);
            first.wait(join); // and is joined back, which every stream has to be
            copy(first, out.data(), reversed.data(), bytes);
        });
        std::cout << 2 * blocks + 1 << " copies and 4 events are one model.\n";

        for (int run = 0; run < runs; run++) {
            for (std::size_t i = 0; i < blocks; i++) // the bytes are read when the model runs
                std::fill_n(in.data() + i * block, block, static_cast<Byte>(run + i));
            step.execute(first);
            first.synchronize();
            for (std::size_t i = 0; i < blocks; i++)
                acl::expect(out[i * block] == static_cast<Byte>(run + blocks - 1 - i), "a run left other bytes");
        }
        std::cout << "It ran " << runs << " times, and every result is right.\n";
    });
}
