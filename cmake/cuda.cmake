# SPDX-License-Identifier: Apache-2.0
# Finds nvcc: on PATH, in CUDA's usual folder, or in PyPI's nvidia-cuda-nvcc package.
set(TW_CUDA_FOUND FALSE)
if(NOT TW_CUDA STREQUAL "OFF")
  find_program(TW_NVCC nvcc
    HINTS ENV CUDA_HOME ENV CUDA_PATH PATHS /usr/local/cuda PATH_SUFFIXES bin)
  if(NOT TW_NVCC)
    find_package(Python3 QUIET COMPONENTS Interpreter)
    if(Python3_FOUND)
      execute_process(
        COMMAND ${Python3_EXECUTABLE} -c
          "import importlib.util as u; s = u.find_spec('nvidia')
print(';'.join(s.submodule_search_locations) if s else '')"
        OUTPUT_VARIABLE nvidia_folders OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
      foreach(folder ${nvidia_folders})
        find_program(TW_NVCC nvcc PATHS ${folder}/cu13/bin ${folder}/cuda_nvcc/bin NO_DEFAULT_PATH)
      endforeach()
    endif()
  endif()
  if(TW_NVCC)
    execute_process(COMMAND ${TW_NVCC} --version
      OUTPUT_VARIABLE nvcc_text RESULT_VARIABLE nvcc_result)
    if(nvcc_result EQUAL 0)
      string(REGEX MATCH "release ([0-9.]+)" _ "${nvcc_text}")
      set(TW_CUDA_FOUND TRUE)
      set(TW_NVCC_VERSION ${CMAKE_MATCH_1})
      message(STATUS "CUDA compiler: ${TW_NVCC} ${TW_NVCC_VERSION}")
    endif()
  endif()
  if(TW_CUDA STREQUAL "ON" AND NOT TW_CUDA_FOUND)
    message(FATAL_ERROR "TW_CUDA=ON, but nvcc was not found: put it on PATH, set CUDA_HOME, "
      "or install PyPI's nvidia-cuda-nvcc 13.0; TW_CUDA=OFF builds without it")
  endif()
endif()
