// Two streams and events: twelve chunks of data go through two buffers of the device, one stream filling them while the
// other empties them. Streams know nothing of each other; events put order between them without stopping the host.
#include <algorithm>
#include <iostream>
#include <numeric>
#include <vector>

#include "acl.hpp"

namespace {

constexpr std::size_t chunks = 12;
constexpr std::size_t numbers = 64 * 1024;

// Place on the device for one chunk, with two marks: when it was filled, and when it was emptied.
struct Place {
    acl::DeviceBuffer<int> memory{numbers};
    acl::Event filled, emptied;
};

} // namespace

int main()
{
    return acl::run([] {
        acl::Device device(0);
        std::vector<acl::HostBuffer<int>> source, result; // pinned: both streams run while the host goes on
        for (std::size_t i = 0; i < chunks; i++) {
            source.emplace_back(numbers);
            std::iota(source[i].begin(), source[i].end(), static_cast<int>(i * numbers));
            result.emplace_back(numbers);
            std::fill(result[i].begin(), result[i].end(), -1);
        }
        Place places[2];
        acl::Stream up, down;

        // Nothing in this loop waits on the host. All it does is queue: copies, marks, and waits for marks. At first
        // nothing was emptied yet, and a wait for an event without a record passes.
        for (std::size_t i = 0; i < chunks; i++) {
            Place& place = places[i % std::size(places)];

            up.wait(place.emptied); // not over what the other stream still has to fetch
            up.copy(place.memory, source[i]);
            up.record(place.filled);

            down.wait(place.filled); // not before it is there
            down.copy(result[i], place.memory);
            down.record(place.emptied);
        }
        std::cout << chunks << " chunks are queued: one stream copies them to the device, the other back.\n";

        // The last thing on down waits for the last thing on up, so one would be enough for the numbers. Each stream
        // keeps its own errors, though, and only its own synchronisation returns them.
        up.synchronize();
        down.synchronize();
        for (std::size_t i = 0; i < chunks; i++)
            acl::expect(std::equal(source[i].begin(), source[i].end(), result[i].begin()), "a chunk was lost or mixed up");
        std::cout << "All of them came back through " << std::size(places) << " buffers, and every byte is right.\n";
    });
}
