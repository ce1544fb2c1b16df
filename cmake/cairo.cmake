# Cairo draws the PNG of --png. Only its header is used here: the library is loaded when a PNG is asked for
# (src/report/canvas_png.c says why). Without it --png is refused, and nothing else changes.
pkg_check_modules(CAIRO cairo>=1.10)
if(CAIRO_FOUND)
    set_source_files_properties(${CMAKE_SOURCE_DIR}/src/report/canvas_png.c PROPERTIES
        COMPILE_DEFINITIONS RS_CAIRO COMPILE_OPTIONS "-isystem${CAIRO_INCLUDEDIR}/cairo")
else()
    message(STATUS "Cairo not found: --png will be refused (apt-get install libcairo2-dev)")
endif()
