#!/bin/bash
set -e
source ${ASCEND_INSTALL_PATH}/bin/setenv.bash
mkdir -p build && cd build
cmake .. -DCMAKE_BUILD_TYPE=Debug
make -j2
for program in ./main_*; do $program; done
