# What find_package(AscendCL) reads. It defines the target AscendCL::ascendcl, and for every other name that the library has, such as acl_rt,
# runtime or msprofiler, a target AscendCL::NAME, which is also a component. AscendCL_INCLUDE_DIRS, AscendCL_LIBRARIES and AscendCL_HOME are for
# builds that do without targets. AscendCL_VERSION is the version of the API, AscendCL_ROPEWAY_VERSION that of ropeway.
#
# Where this file lies says where the rest is: three directories up, in lib64/cmake and in share/cmake. The toolkit may be moved.
# In a package of the system, this directory is a link to that of the toolkit.
get_filename_component(AscendCL_HOME "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
if(NOT EXISTS "${AscendCL_HOME}/lib64/libascendcl.so")
    get_filename_component(AscendCL_HOME "${CMAKE_CURRENT_LIST_DIR}" REALPATH)
    get_filename_component(AscendCL_HOME "${AscendCL_HOME}/../../.." ABSOLUTE)
endif()
include("${CMAKE_CURRENT_LIST_DIR}/AscendCLRopeway.cmake")
set(AscendCL_INCLUDE_DIRS "${AscendCL_HOME}/include")
set(AscendCL_LIBRARIES AscendCL::ascendcl)

if(NOT TARGET AscendCL::ascendcl)
    add_library(AscendCL::ascendcl SHARED IMPORTED)
    set_target_properties(AscendCL::ascendcl PROPERTIES
        IMPORTED_LOCATION "${AscendCL_HOME}/lib64/libascendcl.so"
        IMPORTED_SONAME libascendcl.so
        INTERFACE_INCLUDE_DIRECTORIES "${AscendCL_INCLUDE_DIRS}")
endif()
set(AscendCL_ascendcl_FOUND TRUE)

file(GLOB _ascendcl_names RELATIVE "${AscendCL_HOME}/lib64" "${AscendCL_HOME}/lib64/lib*.so")
list(FILTER _ascendcl_names EXCLUDE REGEX "^lib(ascendcl|ropeway_.*)\\.so$")
foreach(_ascendcl_name IN LISTS _ascendcl_names)
    string(REGEX REPLACE "^lib(.*)\\.so$" "\\1" _ascendcl_name "${_ascendcl_name}")
    if(NOT TARGET AscendCL::${_ascendcl_name})
        add_library(AscendCL::${_ascendcl_name} INTERFACE IMPORTED)
        set_target_properties(AscendCL::${_ascendcl_name} PROPERTIES INTERFACE_LINK_LIBRARIES AscendCL::ascendcl)
    endif()
    set(AscendCL_${_ascendcl_name}_FOUND TRUE)
endforeach()
unset(_ascendcl_names)

set(AscendCL_FOUND TRUE)
foreach(_ascendcl_name IN LISTS AscendCL_FIND_COMPONENTS)
    if(AscendCL_FIND_REQUIRED_${_ascendcl_name} AND NOT AscendCL_${_ascendcl_name}_FOUND)
        set(AscendCL_FOUND FALSE)
        set(AscendCL_NOT_FOUND_MESSAGE "the toolkit ${AscendCL_HOME} has no library ${_ascendcl_name}")
    endif()
endforeach()
unset(_ascendcl_name)

if(AscendCL_FOUND)
    include(FindPackageMessage)
    find_package_message(AscendCL
        "Found AscendCL: ${AscendCL_HOME}/lib64/libascendcl.so (found version \"${AscendCL_VERSION}\")" "${AscendCL_HOME}")
endif()
