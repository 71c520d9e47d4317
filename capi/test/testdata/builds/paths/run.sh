#!/bin/bash
set -e
source ${ASCEND_INSTALL_PATH}/bin/setenv.bash
mkdir -p build && cd build
cmake .. -DCMAKE_SKIP_BUILD_RPATH=TRUE
make -j2
for program in ./main_*; do $program; done
