/* A handler that the program sets between aclInit and aclrtSetDevice gets an alternate stack, and nothing else changes. */
#include <acl/acl.h>
#include <errno.h>
#include <signal.h>

#include "check.h"

static void handler(int signal)
{
	(void)signal;
}

int main(void)
{
	struct sigaction action;
	OK(aclInit(NULL));
	CHECK(signal(SIGINT, handler) == SIG_DFL);
	CHECK(signal(SIGTERM, SIG_IGN) == SIG_DFL);
	errno = 0;
	OK(aclrtSetDevice(0));
	CHECK(errno == 0);
	CHECK(sigaction(SIGINT, NULL, &action) == 0);
	CHECK(action.sa_handler == handler && action.sa_flags & SA_ONSTACK && action.sa_flags & SA_RESTART);
	CHECK(sigaction(SIGTERM, NULL, &action) == 0 && action.sa_handler == SIG_IGN);
	CHECK(sigaction(SIGUSR2, NULL, &action) == 0 && action.sa_handler == SIG_DFL && !(action.sa_flags & SA_ONSTACK));
	OK(aclrtResetDevice(0));
	OK(aclFinalize());
	return 0;
}
