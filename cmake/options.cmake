# SPDX-License-Identifier: Apache-2.0
# Compiler rules that hold for every file. No fast-math, no contraction: see docs/numerics.md.
add_library(tw_options INTERFACE)
target_compile_options(tw_options INTERFACE
  -Wall -Wextra -Wconversion -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wpointer-arith
  -ffp-contract=off -fno-math-errno)
if(TW_WERROR)
  target_compile_options(tw_options INTERFACE -Werror)
endif()
if(WIN32)
  # mingw-w64's isinf and isfinite narrow their argument themselves.
  target_compile_options(tw_options INTERFACE -Wno-float-conversion)
else()
  target_compile_definitions(tw_options INTERFACE _POSIX_C_SOURCE=200809L _DEFAULT_SOURCE)
endif()
if(TW_SANITIZE)
  target_compile_options(tw_options INTERFACE
    -fsanitize=${TW_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(tw_options INTERFACE -fsanitize=${TW_SANITIZE})
endif()
