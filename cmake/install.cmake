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
# What a program with the static library links, by name: where it lies is for the machine to say on which that is done.
function(rs_link_name out library)
    get_filename_component(file "${library}" NAME)
    string(REGEX REPLACE "^lib(.*)\\.(a|so|dylib|tbd)$" "-l\\1" name "${file}")
    if(file MATCHES "\\.a$" AND NOT APPLE)
        set(name "-l:${file}") # not the shared one beside it: Debian's LAPACKE would bring another BLAS
    endif()
    set(${out} "${name}" PARENT_SCOPE)
endfunction()
set(RS_PC_LIBS "")
foreach(library ${LAPACKE_LIBRARY} ${OPENBLAS_LIBRARY} ${ARB_LIBRARY} ${FLINT_LIBRARY})
    rs_link_name(name "${library}")
    list(APPEND RS_PC_LIBS "${name}")
endforeach()
list(REMOVE_DUPLICATES RS_PC_LIBS)
list(JOIN RS_PC_LIBS " " RS_PC_LIBS)
configure_file(${CMAKE_SOURCE_DIR}/cmake/rankscope.pc.in ${CMAKE_BINARY_DIR}/rankscope.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/rankscope.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# 'cmake --build build --target installed' builds what is installed, and no test or fuzzer.
add_custom_target(installed DEPENDS rankscope rankscope_lib)
if(TARGET rankscope_shared)
    add_dependencies(installed rankscope_shared)
endif()
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
    add_dependencies(installed pages)
    install(FILES ${pages}/rankscope.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
    install(FILES ${pages}/rankscope.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
        RENAME rankscope)
    install(FILES ${pages}/_rankscope DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
    install(FILES ${pages}/rankscope.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
endif()
