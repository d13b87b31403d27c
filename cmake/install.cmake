# SPDX-License-Identifier: Apache-2.0
include(CMakePackageConfigHelpers)

install(TARGETS tilework EXPORT tilework-targets)
install(DIRECTORY include/tilework DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
if(TW_IO)
  install(TARGETS tilework_io EXPORT tilework-targets)
  install(TARGETS tw)
  install(DIRECTORY shapes DESTINATION ${CMAKE_INSTALL_DATADIR}/tilework)
endif()
install(EXPORT tilework-targets NAMESPACE tilework::
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tilework)
configure_package_config_file(cmake/tilework-config.cmake.in
  ${CMAKE_BINARY_DIR}/tilework-config.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tilework)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/tilework-config-version.cmake
  COMPATIBILITY SameMajorVersion)
install(FILES ${CMAKE_BINARY_DIR}/tilework-config.cmake
  ${CMAKE_BINARY_DIR}/tilework-config-version.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tilework)
# The .pc files name the prefix relative to themselves, so that a prefix can be moved.
file(RELATIVE_PATH TW_PC_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(cmake/tilework.pc.in ${CMAKE_BINARY_DIR}/tilework.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/tilework.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
if(TW_IO)
  configure_file(cmake/tilework_io.pc.in ${CMAKE_BINARY_DIR}/tilework_io.pc @ONLY)
  install(FILES ${CMAKE_BINARY_DIR}/tilework_io.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endif()
