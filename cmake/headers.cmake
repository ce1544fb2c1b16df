# headers.cmake: every header of the rooms and the public one, each alone and all in one file. That it compiles is the test:
# no header needs another before it, and no name means two things.

file(GLOB headers CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/src/*/*.h ${CMAKE_SOURCE_DIR}/include/*.h)
set(all "/* every_header.h: made by cmake/headers.cmake. */\n")
set(alone "")
foreach(header ${headers})
    string(REGEX REPLACE "^(src|include)/" "" name ${header})
    # A guard that two headers share would hide one of them, so it follows from the name.
    string(REGEX REPLACE "[/.]" "_" guard ${name})
    string(TOUPPER ${guard} guard)
    if(header MATCHES "^src/")
        set(guard RS_${guard})
    endif()
    set(source ${CMAKE_BINARY_DIR}/headers/${guard}.c)
    file(CONFIGURE OUTPUT ${source} CONTENT "#include \"${name}\"\n#ifndef ${guard}\n#error \"${header}: its guard is not ${guard}\"\n#endif\n"
        @ONLY)
    list(APPEND alone ${source})
    string(APPEND all "#include \"${name}\"\n")
endforeach()
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/headers/every_header.h CONTENT "${all}" @ONLY)

add_library(headers_alone OBJECT ${alone})
target_link_libraries(headers_alone PRIVATE rankscope_lib)
target_compile_options(headers_alone PRIVATE -O0 -g0)
if(TARGET test_headers)
    target_include_directories(test_headers PRIVATE ${CMAKE_BINARY_DIR}/headers)
    target_compile_options(test_headers PRIVATE -Wredundant-decls) # nor is anything declared by two headers
endif()
