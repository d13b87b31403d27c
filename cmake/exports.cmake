# SPDX-License-Identifier: Apache-2.0
# The exported symbols of a library are exactly the names in its list, under one version node.
function(tw_restrict_exports target list)
  if(NOT UNIX OR APPLE)
    return()
  endif()
  file(STRINGS ${PROJECT_SOURCE_DIR}/cmake/${list} names REGEX "^tw_")
  list(JOIN names ";\n    " body)
  string(TOUPPER ${target} node)
  set(map ${CMAKE_BINARY_DIR}/${target}.map)
  file(CONFIGURE OUTPUT ${map} @ONLY # unlike WRITE, leaves the file's time alone if nothing changed
    CONTENT "${node}_${PROJECT_VERSION_MAJOR} {\n  global:\n    ${body};\n  local: *;\n};\n")
  target_link_options(${target} PRIVATE -Wl,--version-script=${map})
  set_target_properties(${target} PROPERTIES LINK_DEPENDS ${map})
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
    ${PROJECT_SOURCE_DIR}/cmake/${list})
endfunction()
