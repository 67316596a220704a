# Build settings shared by every target.
#
# Results must be the same bits on every machine, so no target may be compiled with fast-math or
# with contraction of a*b+c into one rounding (docs/wire-format.md, "Arithmetic").

set(CINCH_CUDA "auto" CACHE STRING "compile the CUDA codec: auto (where nvcc is found), on, off")
set(CINCH_SANITIZE "" CACHE STRING "empty, address (with undefined) or thread")
option(CINCH_TESTS "build tests and benchmarks" ON)
option(CINCH_WERROR "treat warnings as errors" OFF)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "build type" FORCE)
endif()

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 11)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

# build/bin: programs, build/lib: what is preloaded, build/emulator: the stand-in NVIDIA libraries.
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin")
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/lib")
set(CINCH_EMULATOR_DIR "${PROJECT_BINARY_DIR}/emulator")

find_package(Threads REQUIRED)

# What was compiled before is not compiled again, where ccache is installed. It would not trust precompiled
# headers without being told that nothing reads the time of their compilation, and would preprocess each file
# once more than the compiler does, which is most of what it costs to compile one.
find_program(CINCH_CCACHE ccache)
if(CINCH_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  foreach(language C CXX CUDA)
    set(CMAKE_${language}_COMPILER_LAUNCHER
        "${CMAKE_COMMAND};-E;env;CCACHE_SLOPPINESS=pch_defines,time_macros;CCACHE_DEPEND=1;${CINCH_CCACHE}")
  endforeach()
  add_compile_options($<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fpch-preprocess>)
endif()

# What is installed names its sources from the root of the tree, wherever it was built.
foreach(map "${PROJECT_SOURCE_DIR}/=" "${PROJECT_BINARY_DIR}/=build/")
  add_compile_options($<$<COMPILE_LANGUAGE:C,CXX>:-ffile-prefix-map=${map}>
                      $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-ffile-prefix-map=${map}>)
endforeach()

# GCC 12 takes members of std::variant for uninitialised, and concatenated strings for overlapping or endless,
# where they are not.
add_library(cinch_options INTERFACE)
target_compile_options(cinch_options INTERFACE
  $<$<COMPILE_LANGUAGE:C,CXX>:-Wall -Wextra -Wno-maybe-uninitialized -Wno-restrict -Wno-stringop-overflow>
  $<$<COMPILE_LANGUAGE:C,CXX>:-ffp-contract=off -fno-fast-math>
  $<$<AND:$<BOOL:${CINCH_WERROR}>,$<COMPILE_LANGUAGE:C,CXX>>:-Werror>)
target_include_directories(cinch_options INTERFACE "${PROJECT_SOURCE_DIR}")
target_link_libraries(cinch_options INTERFACE Threads::Threads ${CMAKE_DL_LIBS})

# Programs in C may pass any number where NCCL's headers have an enum; that it is refused is tested.
if(CINCH_SANITIZE STREQUAL "address")
  target_compile_options(cinch_options INTERFACE
    $<$<COMPILE_LANGUAGE:C,CXX>:-fsanitize=address,undefined -fno-sanitize-recover=undefined
    -fno-sanitize=enum -fno-omit-frame-pointer>)
  target_link_options(cinch_options INTERFACE -fsanitize=address,undefined)
elseif(CINCH_SANITIZE STREQUAL "thread")
  target_compile_options(cinch_options INTERFACE
    $<$<COMPILE_LANGUAGE:C,CXX>:-fsanitize=thread -fno-omit-frame-pointer>)
  target_link_options(cinch_options INTERFACE -fsanitize=thread)
elseif(NOT CINCH_SANITIZE STREQUAL "")
  message(FATAL_ERROR "CINCH_SANITIZE is '${CINCH_SANITIZE}': use address, thread or nothing")
endif()

# What a test puts into LD_PRELOAD: a sanitizer's runtime has to come before the library.
set(CINCH_PRELOAD "${PROJECT_BINARY_DIR}/lib/libcinch.so")
if(CINCH_SANITIZE)
  set(runtime lib${CINCH_SANITIZE}.so)
  string(REPLACE "libaddress" "libasan" runtime ${runtime})
  string(REPLACE "libthread" "libtsan" runtime ${runtime})
  execute_process(COMMAND ${CMAKE_CXX_COMPILER} -print-file-name=${runtime}
                  OUTPUT_VARIABLE runtime OUTPUT_STRIP_TRAILING_WHITESPACE)
  set(CINCH_PRELOAD "${runtime}:${CINCH_PRELOAD}")
endif()

# cinch_static_runtime(TARGET): what is loaded into other people's processes brings its own
# libstdc++, so that it cannot clash with the one that the process uses. Sanitizer runtimes need
# the shared one.
function(cinch_static_runtime target)
  if(CINCH_SANITIZE STREQUAL "")
    target_link_options(${target} PRIVATE -static-libstdc++ -static-libgcc -Wl,--exclude-libs,ALL)
  endif()
endfunction()

# cinch_at_night(TARGET...): programs that only .ci/nightly and reports need, which build nightly_programs.
function(cinch_at_night)
  if(NOT TARGET nightly_programs)
    add_custom_target(nightly_programs)
  endif()
  set_target_properties(${ARGN} PROPERTIES EXCLUDE_FROM_ALL ON)
  add_dependencies(nightly_programs ${ARGN})
endfunction()

# cinch_test(NAME sources... [LABELS ...] [LIBS ...] [ENV ...]): a GoogleTest program and its CTest
# entry. ENV holds NAME=VALUE pairs set for the run. Unit tests are presubmit; of the others those that say so.
function(cinch_test name)
  cmake_parse_arguments(T "" "TIMEOUT" "SOURCES;LABELS;LIBS;ENV" ${ARGN})
  add_executable(${name} ${T_SOURCES} ${T_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE cinch_options GTest::gtest_main ${T_LIBS})
  target_compile_options(${name} PRIVATE $<TARGET_PROPERTY:${CINCH_TEST_HEADERS},INTERFACE_COMPILE_OPTIONS>)
  target_precompile_headers(${name} REUSE_FROM ${CINCH_TEST_HEADERS})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests")
  cinch_test_run(${name} ${name} LABELS ${T_LABELS} TIMEOUT ${T_TIMEOUT} ENV ${T_ENV})
endfunction()

# cinch_test_run(NAME PROGRAM [LABELS ...] [TIMEOUT seconds] [FILTER pattern] [ENV ...]): a program
# of cinch_test once more, in other surroundings.
function(cinch_test_run name program)
  cmake_parse_arguments(T "" "TIMEOUT;FILTER" "LABELS;ENV" ${ARGN})
  add_test(NAME ${name} COMMAND ${program})
  if(T_FILTER)
    list(APPEND T_ENV GTEST_FILTER=${T_FILTER})
  endif()
  if("unit" IN_LIST T_LABELS)
    list(APPEND T_LABELS presubmit)
  endif()
  if(NOT T_TIMEOUT)
    set(T_TIMEOUT 120)
  endif()
  if(CINCH_SANITIZE)
    math(EXPR T_TIMEOUT "5 * ${T_TIMEOUT}") # what computes takes so much longer with one
  endif()
  set_tests_properties(${name} PROPERTIES LABELS "${T_LABELS}" TIMEOUT ${T_TIMEOUT}
                                          ENVIRONMENT "${T_ENV}")
endfunction()
