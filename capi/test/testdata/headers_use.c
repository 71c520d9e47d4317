/* What programs do with the headers; compiled as C and as C++ in every standard. */
#include <acl/acl_rt.h>
#include "acl/acl.h"
#include "acl/acl_dump.h"
#include "acl/acl_tdt.h"

/* Error codes are constant expressions: they label cases, initialise statics and size arrays. */
static const aclError first_error = ACL_ERROR_INVALID_PARAM;
static const uint32_t graph_error = ACL_ERROR_GE_PARAM_INVALID;
extern char as_long_as_the_code[ACL_ERROR_RT_FEATURE_NOT_SUPPORT];

int kind_of_error(aclError code);
int kind_of_error(aclError code)
{
    switch (code) {
    case ACL_SUCCESS:
        return 0;
    case ACL_ERROR_INVALID_PARAM:
        return 1;
    case ACL_ERROR_RT_PARAM_INVALID:
        return 2;
    case ACL_ERROR_GE_PARAM_INVALID:
        return 3;
    default:
        return code == first_error || (uint32_t)code == graph_error ? 4 : 5;
    }
}

/* The log takes a format alone, or a format with arguments. */
void write_log(int n);
void write_log(int n)
{
    ACL_APP_LOG(ACL_INFO, "no argument");
    ACL_APP_LOG(ACL_ERROR, "%d and %s", n, "two");
    if (n > 0)
        ACL_APP_LOG(ACL_DEBUG, "in a branch without braces");
    else
        ACL_APP_LOG(ACL_WARNING, "and in the other");
}

/* The enum that C programs of the vendor's header cannot name, by both of its names. */
acltdtTensorType type_of(const acltdtDataItem* item);
acltdtTensorType type_of(const acltdtDataItem* item)
{
    enum acltdtTensorType type = acltdtGetTensorTypeFromItem(item);
    return type;
}

/* Deprecated functions do not stop a build with -Werror. */
aclError query(aclrtEvent event);
aclError query(aclrtEvent event)
{
    aclrtEventStatus status = ACL_EVENT_STATUS_RESERVED;
    aclError ret = aclrtQueryEvent(event, &status);
    return ret != ACL_SUCCESS ? ret : status == ACL_EVENT_STATUS_COMPLETE ? ACL_SUCCESS : ACL_ERROR_RT_EVENT_NOT_COMPLETE;
}

/* Members after an unnamed union and the array without a length of its own. */
uint8_t last_byte(const acldumpChunk* chunk, const aclmdlRITaskParams* params);
uint8_t last_byte(const acldumpChunk* chunk, const aclmdlRITaskParams* params)
{
    if (params->kernelTaskParams.numBlocks == 0)
        return params->rsv2[0];
    return chunk->dataBuf[chunk->bufLen - 1];
}
