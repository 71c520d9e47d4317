/* What happens before what, for the thread sanitizer: see shim/order.c. The shim looks it up by its name. */
#include "shim/entry.h"

char ropeway_order;
