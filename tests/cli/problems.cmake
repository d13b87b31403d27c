# SPDX-License-Identifier: Apache-2.0
# Wrong problems, sets, kernels and levels: exit code 2 and a sentence that helps.
function(expect_usage pattern)
  execute_process(COMMAND ${TW} ${ARGN} OUTPUT_QUIET ERROR_VARIABLE sentence RESULT_VARIABLE code)
  if(NOT code EQUAL 2 OR NOT sentence MATCHES "${pattern}")
    message(FATAL_ERROR "tw ${ARGN}: exit code ${code}, printed: ${sentence}")
  endif()
endfunction()

foreach(command verify bench)
  expect_usage("column 6: gemm has no key 'mm'.* nearest one is m" ${command} "gemm mm=3")
  expect_usage("column 6: gemm has no key 'mm'.* nearest one is m" ${command} gemm mm=3)
  expect_usage("column 10: n=q is not a number" ${command} "gemm m=3 n=q")
  expect_usage("no family 'gem'.* nearest one is gemm" ${command} gem)
  expect_usage("no problem" ${command})
  expect_usage("there is no nowhere.txt" ${command} --set nowhere)
  expect_usage("did you mean --seconds|did you mean --seed" ${command} --secods 1 gemm)
endforeach()
expect_usage("nearest one is tw_gemm_plain_any__ref" verify --kernel tw_gemm_plain_any_ref gemm)
expect_usage("nearest one is avx2" verify --isa avx3 gemm)

file(WRITE ${FOLDER}/wrong.txt "# first\ngemm m=2 n=3 k=4\n\ngemm m=2 kk=4 # no such key\n")
expect_usage("wrong.txt:4: column 10: gemm has no key 'kk'" verify --file ${FOLDER}/wrong.txt)
file(WRITE ${FOLDER}/right.txt "gemm m=2 n=3 k=4 *3 # named\n")
execute_process(COMMAND ${TW} verify --file ${FOLDER}/right.txt
  OUTPUT_VARIABLE output RESULT_VARIABLE code)
if(NOT code EQUAL 0 OR NOT output MATCHES "^[1-9][0-9]* passed, 0 failed\n$")
  message(FATAL_ERROR "${output}exit code ${code}")
endif()
