/*
 * A session has a stream of its own, which is kept when the session ends. After 1983 sessions the device has none left.
 *
 * finds: streams-used-up (warning)
 * offence: called aclrtCreateStream in begin at MADE
 * other: made aclrtCreateStream in begin at MADE
 * other: made aclrtCreateStream in start
 * count: 17
 */
#include "program.h"

enum { SESSIONS = 2000 };

static aclrtStream streams[SESSIONS];

static void begin(int session)
{
	if (aclrtCreateStream(&streams[session]) != ACL_SUCCESS) // MADE
		fprintf(stderr, "session %d is turned away\n", session);
}

static void end(int session)
{
	if (streams[session])
		ACL(aclrtDestroyStream(streams[session]));
	streams[session] = NULL;
}

int main(void)
{
	aclrtStream stream = start();
	for (int session = 0; session < SESSIONS; session++) {
		begin(session);
#ifdef FIXED
		end(session);
#endif
	}
	for (int session = 0; session < SESSIONS; session++)
		end(session);
	finish(stream);
	return 0;
}
