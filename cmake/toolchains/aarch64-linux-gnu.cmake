# SPDX-License-Identifier: Apache-2.0
# AArch64 Linux with Debian's cross compiler; programs run in qemu-user. cmocka is taken from the
# folder that `tools/setup arm64 FOLDER` made, build/arm64 unless the environment variable TW_ARM64
# says otherwise.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L /usr/aarch64-linux-gnu)

if(DEFINED ENV{TW_ARM64})
  set(arm64_folder $ENV{TW_ARM64})
else()
  set(arm64_folder ${CMAKE_CURRENT_LIST_DIR}/../../build/arm64)
endif()
get_filename_component(arm64_folder ${arm64_folder} ABSOLUTE)
set(CMAKE_FIND_ROOT_PATH /usr/aarch64-linux-gnu ${arm64_folder})
set(ENV{PKG_CONFIG_LIBDIR} ${arm64_folder}/usr/lib/aarch64-linux-gnu/pkgconfig)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${arm64_folder})
set(ENV{PKG_CONFIG_ALLOW_SYSTEM_LIBS} 1) # else the folder's -L would be left out
