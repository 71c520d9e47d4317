/* Assertions of the test programs: a failed one says where and ends the program with 1. */
#ifndef CHECK_H
#define CHECK_H

#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition) \
	do { \
		if (!(condition)) { \
			fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition); \
			exit(1); \
		} \
	} while (0)

/* The call must return the code. */
#define IS(code, call) \
	do { \
		int check_got = (call); \
		int check_want = (code); \
		if (check_got != check_want) { \
			fprintf(stderr, "%s:%d: %s returned %d, want %d\n", __FILE__, __LINE__, #call, check_got, check_want); \
			exit(1); \
		} \
	} while (0)

#define OK(call) IS(ACL_SUCCESS, call)

#endif
