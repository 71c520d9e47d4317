/*
 * ropeway/gtest.h: GoogleTest fails the test in which the checker (`ropeway check`) found something, and prints it there.
 *
 *     #include <ropeway/gtest.h>
 *
 * in one source file of the test program is all; no test changes. Nothing happens when the program is not checked, and with another
 * AscendCL. What is found between tests, and when the process ends (leaks), belongs to no test: `ropeway check` prints it.
 */
#ifndef ROPEWAY_GTEST_H
#define ROPEWAY_GTEST_H

#include <stdlib.h>

#include <gtest/gtest.h>

#include "check.h"

namespace ropeway {

class CheckListener : public ::testing::EmptyTestEventListener {
	void OnTestStart(const ::testing::TestInfo &) override
	{
		::free(::ropeway_check_news()); /* of no test */
		::ropeway_check_tell_begin();
	}

	void OnTestEnd(const ::testing::TestInfo &) override
	{
		::ropeway_check_tell_end();
		if (char *news = ::ropeway_check_news()) {
			ADD_FAILURE() << "the checker found\n" << news;
			::free(news);
		}
	}
};

/* Adds the listener before main, once; GoogleTest frees it. The last listener is the first to hear of the end of a test. */
inline bool check_listens()
{
	static const bool once = [] {
		::testing::UnitTest::GetInstance()->listeners().Append(new CheckListener);
		return true;
	}();
	return once;
}

__attribute__((unused)) static const bool check_is_listened_to = check_listens();

} // namespace ropeway

#endif
