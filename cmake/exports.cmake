# SPDX-License-Identifier: Apache-2.0
# The exported symbols are exactly the names in exports.txt, under one version node.
if(UNIX AND NOT APPLE)
  file(STRINGS ${CMAKE_CURRENT_SOURCE_DIR}/cmake/exports.txt names REGEX "^tw_")
  list(JOIN names ";\n    " body)
  file(WRITE ${CMAKE_BINARY_DIR}/tilework.map.new
    "TILEWORK_0 {\n  global:\n    ${body};\n  local: *;\n};\n")
  configure_file(${CMAKE_BINARY_DIR}/tilework.map.new ${CMAKE_BINARY_DIR}/tilework.map COPYONLY)
  target_link_options(tilework PRIVATE -Wl,--version-script=${CMAKE_BINARY_DIR}/tilework.map)
  set_target_properties(tilework PROPERTIES LINK_DEPENDS ${CMAKE_BINARY_DIR}/tilework.map)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
    ${CMAKE_CURRENT_SOURCE_DIR}/cmake/exports.txt)
endif()
