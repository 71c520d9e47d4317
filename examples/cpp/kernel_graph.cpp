// A kernel in a captured step: two streams bring a vector each, page by page, the kernel adds them, and the sum comes down.
// The step is captured once and run ten times, each time with other numbers. The kernel is that of vector_add.cpp.
#include <algorithm>
#include <iostream>

#include "acl.hpp"

namespace {

constexpr std::size_t pages = 16, page = 4096, count = pages * page;
constexpr std::uint32_t blocks = 8;
constexpr int runs = 10;

void copy(const acl::Stream& stream, float* to, const float* from)
{
    constexpr std::size_t bytes = page * sizeof(float);
    for (std::size_t i = 0; i < count; i += page)
        ACL(aclrtMemcpyAsync(to + i, bytes, from + i, bytes, ACL_MEMCPY_DEFAULT, stream.get()));
}

} // namespace

int main(int argc, char** argv)
{
    return acl::run([&] {
        acl::Device device(0);
        acl::Binary binary(argc > 1 ? argv[1] : acl::beside(argv[0], "vector_add.so"));
        acl::HostBuffer<float> left(count), right(count), sum(count); // pinned: other memory cannot be captured
        acl::DeviceBuffer<float> x(count), y(count), z(count);
        acl::Event fork, join;
        acl::Stream first, second;

        const acl::Model step(first, [&] {
            first.record(fork);
            second.wait(fork); // the second stream joins the capture
            copy(first, x.data(), left.data());
            copy(second, y.data(), right.data());
            second.record(join);
            first.wait(join); // the kernel runs when both vectors are there
            first.launch(binary.function("vector_add"), blocks, x.data(), y.data(), z.data(), count);
            copy(first, sum.data(), z.data());
        });
        std::cout << 3 * pages << " copies, a kernel and 4 events are one model.\n";

        for (int run = 0; run < runs; run++) {
            std::fill(left.begin(), left.end(), static_cast<float>(run)); // the numbers are read when the model runs
            std::fill(right.begin(), right.end(), static_cast<float>(2 * run));
            step.execute(first);
            first.synchronize(); // a kernel that failed says so here
            acl::expect(std::all_of(sum.begin(), sum.end(), [&](float s) { return s == 3 * run; }), "a sum is not right");
        }
        std::cout << "It ran " << runs << " times, and every sum is right.\n";
    });
}
