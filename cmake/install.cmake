# install.cmake: what 'make install' puts where. The manual page and the completions are printed by the program
# itself, from the same table of options that it parses, so they cannot say anything else.
include(GNUInstallDirs)

# OpenBLAS's OpenMP flavour lives in a folder of its own; without this the loader would take whichever flavour it finds first.
set_target_properties(rankscope PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)

install(TARGETS rankscope RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS rankscope_lib ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET rankscope_shared)
    set_target_properties(rankscope_shared PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)
    install(TARGETS rankscope_shared LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
install(FILES ${CMAKE_SOURCE_DIR}/include/rankscope.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES ${CMAKE_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
# The pages that the header and --help name.
install(DIRECTORY ${CMAKE_SOURCE_DIR}/docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR} PATTERN images EXCLUDE)
install(FILES ${CMAKE_SOURCE_DIR}/share/page.txt DESTINATION ${CMAKE_INSTALL_DATADIR}/rankscope)

# The prefix is worked out from the place of the .pc file, so that any --prefix is right.
file(RELATIVE_PATH RS_PC_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" RS_PC_PREFIX ${RS_PC_PREFIX})
list(JOIN OpenMP_C_FLAGS " " RS_PC_OPENMP)
# A program that links the static library finds the same OpenBLAS as ours.
get_filename_component(folder ${OPENBLAS_LIBRARY} DIRECTORY)
set(RS_PC_RPATH "")
if(NOT folder IN_LIST CMAKE_C_IMPLICIT_LINK_DIRECTORIES)
    set(RS_PC_RPATH "-Wl,-rpath,${folder}")
endif()
configure_file(${CMAKE_SOURCE_DIR}/cmake/rankscope.pc.in ${CMAKE_BINARY_DIR}/rankscope.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/rankscope.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

if(NOT CMAKE_CROSSCOMPILING AND NOT RS_SANITIZE AND NOT RS_FUZZ)
    set(pages ${CMAKE_BINARY_DIR}/pages)
    add_custom_command(OUTPUT ${pages}/rankscope.1 ${pages}/rankscope.bash ${pages}/_rankscope ${pages}/rankscope.fish
        COMMAND ${CMAKE_COMMAND} -E make_directory ${pages}
        COMMAND rankscope --man > ${pages}/rankscope.1
        COMMAND rankscope --completion bash > ${pages}/rankscope.bash
        COMMAND rankscope --completion zsh > ${pages}/_rankscope
        COMMAND rankscope --completion fish > ${pages}/rankscope.fish
        DEPENDS rankscope
        COMMENT "Writing the manual page and the completions"
        VERBATIM)
    add_custom_target(pages ALL DEPENDS ${pages}/rankscope.1)
    install(FILES ${pages}/rankscope.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
    install(FILES ${pages}/rankscope.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
        RENAME rankscope)
    install(FILES ${pages}/_rankscope DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
    install(FILES ${pages}/rankscope.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
endif()
