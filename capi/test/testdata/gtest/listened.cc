/* Tests of which two make the same mistake, one makes it on purpose, and what they use is never freed. */
#include <acl/acl.h>
#include <ropeway/gtest.h>

namespace {

class Copy : public testing::Test {
protected:
    static void SetUpTestSuite()
    {
        ASSERT_EQ(aclrtSetDevice(0), ACL_SUCCESS);
        ASSERT_EQ(aclrtMallocHost(&host, 64), ACL_SUCCESS);
        ASSERT_EQ(aclrtMalloc(&device, 64, ACL_MEM_MALLOC_HUGE_FIRST), ACL_SUCCESS);
        ASSERT_EQ(aclrtMemset(device, 64, 1, 64), ACL_SUCCESS);
    }
    static void TearDownTestSuite() { ASSERT_EQ(aclrtFree(device), ACL_SUCCESS); }
    void SetUp() override { ASSERT_EQ(aclrtMemcpyAsync(host, 64, device, 64, ACL_MEMCPY_DEVICE_TO_HOST, nullptr), ACL_SUCCESS); }
    void TearDown() override { ASSERT_EQ(aclrtSynchronizeStream(nullptr), ACL_SUCCESS); }

    static int first() { return *static_cast<volatile char *>(host); }
    static void *host, *device;
};

void *Copy::host, *Copy::device;

TEST_F(Copy, Right)
{
    ASSERT_EQ(aclrtSynchronizeStream(nullptr), ACL_SUCCESS);
    EXPECT_EQ(first(), 1);
}

TEST_F(Copy, Wrong) { EXPECT_LE(first(), 1); }

TEST_F(Copy, Loop)
{
    for (int i = 0; i < 2; i++)
        EXPECT_LE(first(), 1);
}

TEST_F(Copy, Meant)
{
    ropeway_check_ignore_begin();
    EXPECT_LE(first(), 1);
    ropeway_check_ignore_end();
}

} // namespace
