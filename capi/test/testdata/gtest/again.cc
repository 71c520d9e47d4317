/* Another file with the listener, which is still one. */
#include <ropeway/gtest.h>

TEST(Other, IsRight) {}
