// Batch copy: sixteen pages of a cache, side by side in host memory, go to sixteen places scattered over the device,
// with one call instead of sixteen. Products A2, A3 and 950 have batch copies; the vendor marks them a trial feature.
#include <algorithm>
#include <array>
#include <iostream>

#include "acl.hpp"

namespace {

constexpr std::size_t pages = 16;
constexpr std::size_t page = 4096; // a multiple of 64, so every page is aligned as the buffers are

// 7 and 16 have no common divisor: each place is taken once.
constexpr std::size_t place(std::size_t i) { return i * 7 % pages; }

// Batch holds the arrays that the call takes. They are free again when it returns; the memory they name is not.
struct Batch {
    std::array<void*, pages> to{}, from{};
    std::array<std::size_t, pages> room{}, sizes{};

    // Returns the code, because failing may be wanted: failed is then the segment that was refused, or SIZE_MAX.
    aclError submit(std::size_t& failed, const acl::Stream& stream)
    {
        // Attribute k holds for the segments from first[k] up to the next one's; here one is enough. Host memory has id
        // 0, device memory the number of its device. The reserved bytes have to be 0, and {} makes them so.
        aclrtMemcpyBatchAttr up{};
        up.dstLoc = {0, ACL_MEM_LOCATION_TYPE_DEVICE};
        up.srcLoc = {0, ACL_MEM_LOCATION_TYPE_HOST};
        std::size_t first[] = {0};
        return aclrtMemcpyBatchAsync(
            to.data(), room.data(), from.data(), sizes.data(), pages, &up, first, 1, &failed, stream.get());
    }
};

} // namespace

int main()
{
    return acl::run([] {
        acl::Device device(0);
        acl::HostBuffer<char> cache(pages * page), back(pages * page); // pinned, so that the batch is asynchronous
        acl::DeviceBuffer<char> memory(pages * page);
        acl::Stream stream;
        for (std::size_t i = 0; i < pages; i++)
            std::fill_n(&cache[i * page], page, static_cast<char>('a' + i));

        // Segments are independent and run in any order, so none may touch what another one writes. They all go the
        // same way. The stream keeps its order around the batch as a whole.
        Batch batch;
        for (std::size_t i = 0; i < pages; i++) {
            batch.from[i] = &cache[i * page];
            batch.to[i] = memory.data() + place(i) * page;
            batch.room[i] = batch.sizes[i] = page;
        }
        std::size_t failed = 0;
        ACL(batch.submit(failed, stream));
        std::cout << pages << " pages of " << page << " bytes were copied with one call, each to its own place.\n";

        stream.copy(back, memory); // after the batch, in one piece
        stream.synchronize();
        std::cout << "Their order on the device: ";
        for (std::size_t i = 0; i < pages; i++) {
            const char* sent = &cache[i * page];
            acl::expect(std::equal(sent, sent + page, &back[place(i) * page]), "a page is not where it was sent");
            std::cout << back[i * page];
        }

        // Segment 5 now starts in device memory, but the attribute promises host memory. On A2 and A3 the segments
        // before it are queued by then; the stream waits for them before the buffers go.
        batch.from[5] = memory.data();
        aclError code = batch.submit(failed, stream);
        acl::expect(code == ACL_ERROR_RT_PARAM_INVALID && failed == 5, "segment 5 should have been refused");
        std::cout << "\nA page in the wrong kind of memory is refused, with its number: " << failed << ".\n";
        stream.synchronize();
    });
}
