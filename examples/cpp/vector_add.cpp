// A kernel between copies: two vectors go up, the device adds them, and the sum comes down, all on one stream. The kernel is in
// vector_add.so, beside the program, which make builds of vector_add_kernel.cpp.
#include <iostream>
#include <numeric>

#include "acl.hpp"

int main(int argc, char** argv)
{
    return acl::run([&] {
        constexpr std::size_t count = 1 << 16;
        constexpr std::uint32_t blocks = 8;
        acl::Device device(0);
        acl::Binary binary(argc > 1 ? argv[1] : acl::beside(argv[0], "vector_add.so"));
        acl::HostBuffer<float> up(count), twice(count), down(count);
        acl::DeviceBuffer<float> x(count), y(count), z(count);
        acl::Stream stream; // after the buffers, so that it goes first and waits for its work

        std::iota(up.begin(), up.end(), 0.0F);
        for (std::size_t i = 0; i < count; i++)
            twice[i] = 2 * up[i];
        stream.copy(x, up);
        stream.copy(y, twice);
        stream.launch(binary.function("vector_add"), blocks, x.data(), y.data(), z.data(), count);
        stream.copy(down, z);
        std::cout << "Two copies, a kernel of " << blocks << " blocks and a copy back are queued.\n";

        stream.synchronize(); // a kernel that failed says so here
        for (std::size_t i = 0; i < count; i++)
            acl::expect(down[i] == 3 * up[i], "a sum is not what it should be");
        std::cout << "All " << count << " sums are right.\n";
    });
}
