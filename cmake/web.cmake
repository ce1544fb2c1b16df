# The report page: web/ bundled by esbuild (from npm, versions pinned in web/package-lock.json) into one
# HTML file in the build folder, which src/report/page.c embeds.
find_program(NODE_PROGRAM NAMES node nodejs)
find_program(NPM_PROGRAM npm)
set(web_install "apt-get install --no-install-recommends nodejs npm (or: make deps)")
if(NOT NODE_PROGRAM OR NOT NPM_PROGRAM)
    message(FATAL_ERROR "node and npm are needed to build the HTML report page; install them with: ${web_install}")
endif()
execute_process(COMMAND ${NODE_PROGRAM} --version OUTPUT_VARIABLE node_version
    OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE node_failed)
string(REGEX REPLACE "^v" "" node_version "${node_version}")
if(node_failed OR node_version VERSION_LESS 18)
    message(FATAL_ERROR "node 18 or newer is needed to build the HTML report page, found '${node_version}' "
        "at ${NODE_PROGRAM}; install it with: ${web_install}")
endif()

set(web_source ${CMAKE_SOURCE_DIR}/web)
set(web_build ${CMAKE_BINARY_DIR}/web)
set(web_page ${web_build}/page.html)

# npm works in the build folder, so that the source tree stays as it was. --ignore-scripts: esbuild's
# program comes in a package of its own for each platform and needs no script.
set(web_package ${web_source}/package.json ${web_source}/package-lock.json ${web_source}/.npmrc)
file(MAKE_DIRECTORY ${web_build})
add_custom_command(OUTPUT ${web_build}/installed
    COMMAND ${CMAKE_COMMAND} -E copy ${web_package} ${web_build}
    COMMAND ${NPM_PROGRAM} ci --ignore-scripts --loglevel=error
    COMMAND ${CMAKE_COMMAND} -E touch ${web_build}/installed
    DEPENDS ${web_package}
    WORKING_DIRECTORY ${web_build}
    COMMENT "Installing the packages of the report page (npm ci)" VERBATIM)

file(GLOB web_sources CONFIGURE_DEPENDS ${web_source}/*.js ${web_source}/*.css ${web_source}/*.html)
add_custom_command(OUTPUT ${web_page}
    COMMAND ${CMAKE_COMMAND} -E copy ${web_source}/build.mjs ${web_build}
    COMMAND ${CMAKE_COMMAND} -E env RANKSCOPE_WEB=${web_source}
        ${NODE_PROGRAM} ${web_build}/build.mjs ${web_page}
    DEPENDS ${web_build}/installed ${web_source}/build.mjs ${web_sources}
    WORKING_DIRECTORY ${web_build}
    COMMENT "Bundling the report page" VERBATIM)
add_custom_target(web_page DEPENDS ${web_page})

set_source_files_properties(${CMAKE_SOURCE_DIR}/src/report/page.c PROPERTIES
    OBJECT_DEPENDS ${web_page}
    COMPILE_DEFINITIONS "RS_PAGE_FILE=\"${web_page}\"")
add_dependencies(rankscope_objects web_page)

# A made-up report for the browser test (cmake/tests.cmake).
if(EXISTS ${CMAKE_SOURCE_DIR}/tests/browser/make_sample.c)
    add_executable(make_sample ${CMAKE_SOURCE_DIR}/tests/browser/make_sample.c)
    set_target_properties(make_sample PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
    target_link_libraries(make_sample PRIVATE rankscope_lib)
endif()
