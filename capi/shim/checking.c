/* How programs inform and query the checker: ropeway/check.h. With checking off nothing is loaded for it. */
#include "shim.h"

#include "ropeway/check.h"

EXPORT int ropeway_checking_enabled(void)
{
	const char *wanted = ropeway_setting("ROPEWAY_CHECK");
	return wanted && *wanted && strcmp(wanted, "0") != 0;
}

EXPORT int ropeway_checking_in_flight(const void *address, size_t size)
{
	uint64_t a[] = {(uintptr_t)address, size};
	return ropeway_checking_enabled() ? (int)call(ROPEWAY_IN_FLIGHT, a) : 0;
}

EXPORT void ropeway_checking_complete(const void *address, size_t size)
{
	uint64_t a[] = {(uintptr_t)address, size};
	if (ropeway_checking_enabled())
		call(ROPEWAY_COMPLETE, a);
}

EXPORT void ropeway_checking_ignore(int change)
{
	uint64_t a[] = {(uint64_t)(int64_t)change};
	if (ropeway_checking_enabled())
		call(ROPEWAY_IGNORE, a);
}

EXPORT uint64_t ropeway_checking_findings(void)
{
	return ropeway_checking_enabled() ? call(ROPEWAY_FINDINGS, NULL) : 0;
}

EXPORT void ropeway_checking_tell(int change)
{
	uint64_t a[] = {(uint64_t)(int64_t)change};
	if (ropeway_checking_enabled())
		call(ROPEWAY_TELL, a);
}

EXPORT char *ropeway_checking_news(void)
{
	return ropeway_checking_enabled() ? (char *)(uintptr_t)call(ROPEWAY_NEWS, NULL) : NULL;
}
