# SPDX-License-Identifier: Apache-2.0
# Every kernel of a level of instructions against the reference (a level above the machine's own is
# the machine's own).
set(ENV{TW_MAX_ISA} ${LEVEL})
execute_process(COMMAND ${TW} verify --set all OUTPUT_VARIABLE output RESULT_VARIABLE code)
if(NOT code EQUAL 0 OR NOT output MATCHES "[1-9][0-9]* passed, 0 failed\n$")
  message(FATAL_ERROR "${output}exit code ${code}")
endif()
message("${output}")
