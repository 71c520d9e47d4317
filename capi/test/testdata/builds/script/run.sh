#!/bin/bash
# Compiles by hand, after the toolkit's environment, with the version that its package says.
set -e
_ASCEND_INSTALL_PATH=${ASCEND_INSTALL_PATH:-/usr/local/Ascend/ascend-toolkit/latest}
source $_ASCEND_INSTALL_PATH/bin/setenv.bash
if [ -z "$ASCEND_HOME_PATH" ]; then
    echo "[ERROR] ASCEND_HOME_PATH is not set"
    exit 1
fi
version_file=$ASCEND_HOME_PATH/share/info/runtime/version.info
if [ ! -f "$version_file" ]; then
    echo "[ERROR] no $version_file"
    exit 1
fi
version=$(grep -m 1 "Version=" "$version_file" | cut -d "=" -f 2 | tr -d ' \r')
echo "[INFO] runtime $version, major ${version%%.*}"
if [ "${version%%.*}" -lt 8 ]; then
    echo "[ERROR] the toolkit is too old"
    exit 1
fi
arch=$(uname -m)
g++ -std=c++11 ../main.cpp -o main -DPARTS \
    -I$ASCEND_HOME_PATH/include -I$ASCEND_HOME_PATH/include/acl -I$ASCEND_HOME_PATH/runtime/include \
    -L$ASCEND_HOME_PATH/$arch-linux/lib64 -lascendcl -lacl_rt -lmsprofiler -lacl_tdt_channel -lacl_tdt_queue
./main
