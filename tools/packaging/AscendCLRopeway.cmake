# The version of ropeway; AscendCL_VERSION is that of the API.
set(AscendCL_ROPEWAY_VERSION "0.1.0")
