# libFuzzer, which only clang has. Other compilers have clang build the fuzzers in a build folder of
# its own; where clang is missing, the seeded fuzz tests of the unit tests are all.

# cinch_fuzzer(NAME sources... [LIBS ...]): a fuzzer, where this is the build folder of clang.
function(cinch_fuzzer name)
  if(NOT CINCH_FUZZER)
    return()
  endif()
  cmake_parse_arguments(F "" "" "LIBS" ${ARGN})
  add_executable(${name} ${F_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE ${F_LIBS})
  target_link_options(${name} PRIVATE -fsanitize=fuzzer)
endfunction()

# cinch_fuzzer_build(NAME LABEL TIMEOUT fuzzers...): a target and a test that has clang build them.
# Not part of the usual build, for they take longer than most of it. CINCH_FUZZER_BIN is then where
# they will be, and empty where they cannot be built.
function(cinch_fuzzer_build name label timeout)
  cinch_has_fuzzer(is_possible)
  set(CINCH_FUZZER_BIN "" PARENT_SCOPE)
  if(NOT is_possible)
    return()
  endif()
  set(folder "${PROJECT_BINARY_DIR}/fuzzers")
  add_custom_target(${name}
    COMMAND "${CMAKE_COMMAND}" -G "${CMAKE_GENERATOR}" -S "${PROJECT_SOURCE_DIR}" -B "${folder}"
            "-DCMAKE_CXX_COMPILER=${CINCH_CLANG}" "-DCMAKE_CXX_FLAGS=-fsanitize=fuzzer-no-link -w"
            -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCINCH_SANITIZE=address -DCINCH_CUDA=off
            -DCINCH_FUZZER=ON
    COMMAND "${CMAKE_COMMAND}" --build "${folder}" --target ${ARGN}
    USES_TERMINAL VERBATIM)
  add_test(NAME ${name}er_build
    COMMAND "${CMAKE_COMMAND}" --build "${PROJECT_BINARY_DIR}" --target ${name})
  set_tests_properties(${name}er_build PROPERTIES
    LABELS ${label} TIMEOUT ${timeout} FIXTURES_SETUP ${name}er RESOURCE_LOCK fuzzers)
  set(CINCH_FUZZER_BIN "${folder}/bin" PARENT_SCOPE)
endfunction()

# With sanitizers the fuzzers would be built a second time, just the same.
function(cinch_has_fuzzer result)
  set(${result} FALSE PARENT_SCOPE)
  find_program(CINCH_CLANG clang++)
  if(NOT CINCH_CLANG OR CINCH_SANITIZE OR CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    return()
  endif()
  file(WRITE "${CMAKE_CURRENT_BINARY_DIR}/probe.cc"
    "extern \"C\" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }\n")
  execute_process(
    COMMAND "${CINCH_CLANG}" -fsanitize=fuzzer,address,undefined probe.cc -o probe
    WORKING_DIRECTORY "${CMAKE_CURRENT_BINARY_DIR}"
    RESULT_VARIABLE failed OUTPUT_QUIET ERROR_QUIET)
  if(NOT failed)
    set(${result} TRUE PARENT_SCOPE)
  endif()
endfunction()
