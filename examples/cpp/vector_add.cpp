// A kernel between copies: two vectors go up, the device adds them, and the sum comes down, all on one stream. The kernel is in
// vector_add.so, beside the program, which make builds of vector_add_kernel.cpp.
#include <cstdint>
#include <iostream>
#include <numeric>
#include <string>

#include "acl.hpp"

namespace {

// Binary is a loaded file of kernels.
class Binary : acl::Owner<aclrtBinHandle, aclrtBinaryUnLoad> {
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

// launch queues a kernel. Its arguments, each of 8 bytes, are copied by the call.
template <typename... Args>
void launch(const acl::Stream& stream, aclrtFuncHandle kernel, std::uint32_t blocks, Args... args)
{
    std::uint64_t words[] = {(std::uint64_t)args...};
    ACL(aclrtLaunchKernelWithHostArgs(kernel, blocks, stream.get(), nullptr, words, sizeof words, nullptr, 0));
}

} // namespace

int main(int argc, char** argv)
{
    return acl::run([&] {
        std::string program = argv[0];
        std::string path = argc > 1 ? argv[1] : program.substr(0, program.rfind('/') + 1) + "vector_add.so";

        constexpr std::size_t count = 1 << 16;
        constexpr std::uint32_t blocks = 8;
        acl::Device device(0);
        Binary binary(path);
        acl::HostBuffer<float> up(count), twice(count), down(count);
        acl::DeviceBuffer<float> x(count), y(count), z(count);
        acl::Stream stream; // after the buffers, so that it goes first and waits for its work

        std::iota(up.begin(), up.end(), 0.0F);
        for (std::size_t i = 0; i < count; i++)
            twice[i] = 2 * up[i];
        stream.copy(x, up);
        stream.copy(y, twice);
        launch(stream, binary.function("vector_add"), blocks, x.data(), y.data(), z.data(), count);
        stream.copy(down, z);
        std::cout << "Two copies, a kernel of " << blocks << " blocks and a copy back are queued.\n";

        stream.synchronize(); // a kernel that failed says so here
        for (std::size_t i = 0; i < count; i++)
            acl::expect(down[i] == 3 * up[i], "a sum is not what it should be");
        std::cout << "All " << count << " sums are right.\n";
    });
}
