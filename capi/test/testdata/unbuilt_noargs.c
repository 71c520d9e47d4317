/* Functions without arguments that are not built say so. Their names are the arguments. */
#define _GNU_SOURCE
#include <acl/acl.h>
#include <dlfcn.h>
#include <string.h>
#include "check.h"

int main(int argc, char **argv)
{
	OK(aclrtSetDevice(0));
	CHECK(argc > 1);
	for (int i = 1; i < argc; i++) {
		void (*call)(void);
		*(void **)&call = dlsym(RTLD_DEFAULT, argv[i]);
		CHECK(call != NULL);
		call();
		const char *text = aclGetRecentErrMsg();
		if (text == NULL || !strstr(text, argv[i]) || !strstr(text, "not built in ropeway")) {
			fprintf(stderr, "%s: %s\n", argv[i], text ? text : "no message");
			return 1;
		}
	}
	return 0;
}
