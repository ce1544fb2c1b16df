# tests.cmake: every test that is not a unit test. Exit 77 means "skipped, for the reason printed".
# Labels: unit, cli, fuzz, page, install, style ('ctest -L unit' runs one kind).

# ---- what a sanitized program is told (CONTRIBUTING.md says why) ----
set(RS_SANITIZER_ENV "")
if(RS_SANITIZE MATCHES address)
    list(APPEND RS_SANITIZER_ENV
        "ASAN_OPTIONS=detect_leaks=1:strict_string_checks=1:detect_stack_use_after_return=1:allocator_may_return_null=1"
        "LSAN_OPTIONS=suppressions=${CMAKE_SOURCE_DIR}/tests/lsan.supp:print_suppressions=0"
        "UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1")
elseif(RS_SANITIZE MATCHES thread)
    list(APPEND RS_SANITIZER_ENV
        "TSAN_OPTIONS=ignore_noninstrumented_modules=1:halt_on_error=1"
        "OPENBLAS_NUM_THREADS=1")
endif()

# The limit is there to end a test that hangs, not to measure: a machine on which others work may be a hundred times slower.
function(rs_test name label)
    set_tests_properties(${name} PROPERTIES LABELS ${label} SKIP_RETURN_CODE 77 TIMEOUT 14400)
    set_property(TEST ${name} APPEND PROPERTY ENVIRONMENT ${RS_SANITIZER_ENV})
endfunction()

get_property(unit_tests DIRECTORY PROPERTY TESTS)
foreach(name ${unit_tests})
    rs_test(${name} unit)
endforeach()
# Those that take minutes under ThreadSanitizer, and of threads have nothing that another does not ('make tsan' leaves them out).
foreach(name test_gradients_families test_options test_predict_shapes test_tokenizer test_train_differences)
    set_property(TEST ${name} APPEND PROPERTY LABELS one_thread)
endforeach()

# ---- the program with its requests for memory refused one by one (tests/cli/memory.sh runs it) ----
if(NOT RS_FUZZ)
    list(FILTER RS_CLI_SOURCES EXCLUDE REGEX "/(main|blas_rescue)\\.c$")
    add_executable(memory_walk tests/memory/walk.c tests/memory/main.c ${RS_CLI_SOURCES})
    set_target_properties(memory_walk PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
    target_link_libraries(memory_walk PRIVATE rankscope_lib)
endif()

# ---- what architecture files draw, for scripts of tests/oracle (built when they ask for it) ----
add_executable(arch_weights EXCLUDE_FROM_ALL tests/oracle/arch_weights.c)
set_target_properties(arch_weights PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
target_link_libraries(arch_weights PRIVATE rankscope_lib)

# ---- saved networks, made and run beside the program (tests/cli/saved.sh, loader.sh) ----
add_executable(saved_network tests/saved/network.c)
set_target_properties(saved_network PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
target_link_libraries(saved_network PRIVATE rankscope_lib)

# ---- the command line: each tests/cli/NAME.sh in a folder of its own; lib*.sh are what they share ----
# tests/cli/users/ has the tasks of the people whom README names.
file(GLOB cli_tests CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/cli/*.sh ${CMAKE_SOURCE_DIR}/tests/cli/users/*.sh)
list(FILTER cli_tests EXCLUDE REGEX "/lib[^/]*$")
foreach(script ${cli_tests})
    get_filename_component(name ${script} NAME_WE)
    if(script MATCHES "/users/")
        set(name user_${name})
    endif()
    file(STRINGS ${script} shebang LIMIT_COUNT 1)
    set(shell sh)
    if(shebang MATCHES bash)
        set(shell bash)
    endif()
    set(folder ${CMAKE_BINARY_DIR}/tests/cli/${name})
    file(MAKE_DIRECTORY ${folder})
    add_test(NAME cli_${name} COMMAND ${shell} ${script} WORKING_DIRECTORY ${folder})
    set_tests_properties(cli_${name} PROPERTIES ENVIRONMENT
        "RANKSCOPE=$<TARGET_FILE:rankscope>;MEMORY_WALK=${CMAKE_BINARY_DIR}/tests/memory_walk;SAVED_NETWORK=${CMAKE_BINARY_DIR}/tests/saved_network;RS_SOURCE_DIR=${CMAKE_SOURCE_DIR};OMP_NUM_THREADS=2")
    rs_test(cli_${name} cli)
endforeach()

# With sanitizers once is enough (make asan). The first three run each experiment of the laboratory, as test_lab_experiments
# does; the others ask what other tests ask, hundreds of times, and look at how it is laid out. So does the page in a browser.
foreach(name lab claims explain terminal screens tutorial completion)
    set_property(TEST cli_${name} APPEND PROPERTY LABELS repeats)
endforeach()

# ---- seeds of the fuzz targets, one archive each; some are cases of unit tests too ----
set(RS_SEEDS ${CMAKE_BINARY_DIR}/seeds)
file(GLOB corpora CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/fuzz/corpus/*.tar.gz)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${corpora})
execute_process(COMMAND sh ${CMAKE_SOURCE_DIR}/scripts/corpus.sh unpack ${RS_SEEDS} COMMAND_ERROR_IS_FATAL ANY)
foreach(name test_config test_index test_safetensors)
    if(TARGET ${name})
        target_compile_definitions(${name} PRIVATE RS_TEST_SEEDS="${RS_SEEDS}")
    endif()
endforeach()

# ---- fuzz regressions: every stored input through its target, without libFuzzer and so with any compiler ----
if(NOT RS_FUZZ)
    file(GLOB fuzzers CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/fuzz/fuzz_*.c)
    foreach(source ${fuzzers})
        get_filename_component(target ${source} NAME_WE)
        string(REGEX REPLACE "^fuzz_" "" target ${target})
        add_executable(replay_${target} ${source} ${CMAKE_SOURCE_DIR}/tests/fuzz/replay.c)
        set_target_properties(replay_${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
        target_link_libraries(replay_${target} PRIVATE rankscope_lib)
        add_test(NAME fuzz_${target} COMMAND replay_${target}
            ${RS_SEEDS}/${target} ${CMAKE_SOURCE_DIR}/fuzz/regressions/${target})
        set_tests_properties(fuzz_${target} PROPERTIES ENVIRONMENT "OMP_NUM_THREADS=1")
        rs_test(fuzz_${target} fuzz)
    endforeach()
endif()

# ---- the HTML report's page in a headless browser ----
find_program(RS_NODE NAMES node nodejs)
find_program(RS_CHROMIUM NAMES chromium chromium-browser google-chrome)
if(RS_NODE AND TARGET make_sample)
    if(RS_CHROMIUM)
        add_test(NAME browser COMMAND ${RS_NODE} ${CMAKE_SOURCE_DIR}/tests/browser/run.mjs
            ${RS_CHROMIUM} $<TARGET_FILE:make_sample>)
    else()
        add_test(NAME browser COMMAND sh -c "echo 'skipped: no Chromium found; make deps-test installs it'; exit 77")
    endif()
    rs_test(browser page)
endif()

# ---- 'make install': what lands where, and that another program can be built with it ----
if(NOT RS_SANITIZE AND NOT RS_FUZZ AND NOT RS_COVERAGE)
    add_test(NAME install COMMAND sh ${CMAKE_SOURCE_DIR}/tests/install/run.sh ${CMAKE_BINARY_DIR} ${CMAKE_COMMAND})
    set_tests_properties(install PROPERTIES ENVIRONMENT "RS_SOURCE_DIR=${CMAKE_SOURCE_DIR}")
    rs_test(install install)
    add_test(NAME exports COMMAND sh ${CMAKE_SOURCE_DIR}/tests/install/exports.sh
        $<TARGET_LINKER_FILE:rankscope_shared> ${CMAKE_SOURCE_DIR}/include/rankscope.h ${PROJECT_VERSION_MAJOR})
    rs_test(exports install)
endif()

# ---- style ----
add_test(NAME format COMMAND sh ${CMAKE_SOURCE_DIR}/scripts/format.sh --check)
add_test(NAME lint COMMAND sh ${CMAKE_SOURCE_DIR}/scripts/lint.sh)
rs_test(format style)
rs_test(lint style)

include(${CMAKE_SOURCE_DIR}/cmake/headers.cmake)
