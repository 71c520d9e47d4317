// Asynchronous copy: a quarter million floats go up to the device and down again, while the host does something else.
#include <algorithm>
#include <iostream>
#include <numeric>

#include "acl.hpp"

int main()
{
    return acl::run([] {
        acl::Device device(0); // for this thread; another thread would have to say so itself

        // Pinned host memory, because with pageable memory (std::vector, new) the copy would wait for the whole stream
        // and be made before the call returns. All of these are aligned to 64 bytes and more, as some products want it.
        constexpr std::size_t count = 1 << 18;
        acl::HostBuffer<float> up(count), down(count);
        acl::DeviceBuffer<float> memory(count);
        acl::Stream stream; // after the buffers, so that it goes first and waits for its copies

        std::iota(up.begin(), up.end(), 0.5F);
        std::fill(down.begin(), down.end(), 0.0F);

        // Queued, not done. A stream keeps its order: the second copy starts when the first one is through.
        stream.copy(memory, up);
        stream.copy(down, memory);
        std::cout << "Two copies are queued: " << up.bytes() << " bytes to the device, and back.\n";

        // Meanwhile up may be read but not written, and down may not be touched at all.
        double sum = std::accumulate(up.begin(), up.end(), 0.0);
        std::cout << "Meanwhile the host computed the mean: " << sum / count << ".\n";

        stream.synchronize(); // waits; throws the first error
        acl::expect(std::equal(up.begin(), up.end(), down.begin()), "the numbers that came down are others");
        std::cout << "Every number came back.\n";
    });
}
