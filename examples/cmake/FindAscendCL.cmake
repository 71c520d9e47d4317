# Finds AscendCL and defines the target AscendCL::ascendcl. It looks, in this order, at -DASCEND_HOME_PATH=..., at the
# variables that a toolkit's set_env.sh sets, and at the usual place.
set(ASCEND_HOME_PATH "" CACHE PATH "Root of a toolkit: the directory with include/acl and lib64")
set(_places
    "${ASCEND_HOME_PATH}"
    "$ENV{ASCEND_HOME_PATH}"
    "$ENV{ASCEND_TOOLKIT_HOME}"
    /usr/local/Ascend/ascend-toolkit/latest)

# Only there: a search of the system's own directories could mix headers of one toolkit with the library of another.
find_path(AscendCL_INCLUDE_DIR acl/acl.h PATHS ${_places} PATH_SUFFIXES include NO_DEFAULT_PATH)
find_library(AscendCL_LIBRARY ascendcl PATHS ${_places} PATH_SUFFIXES lib64 NO_DEFAULT_PATH)
unset(_places)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(AscendCL
    REQUIRED_VARS AscendCL_LIBRARY AscendCL_INCLUDE_DIR
    FAIL_MESSAGE "AscendCL is missing: source the toolkit's set_env.sh, or pass -DASCEND_HOME_PATH=directory")

if(AscendCL_FOUND AND NOT TARGET AscendCL::ascendcl)
    add_library(AscendCL::ascendcl SHARED IMPORTED)
    set_target_properties(AscendCL::ascendcl PROPERTIES
        IMPORTED_LOCATION "${AscendCL_LIBRARY}"
        INTERFACE_INCLUDE_DIRECTORIES "${AscendCL_INCLUDE_DIR}")
endif()
mark_as_advanced(AscendCL_INCLUDE_DIR AscendCL_LIBRARY)
