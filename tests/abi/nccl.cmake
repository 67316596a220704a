# The same source once per header; the installed one only where it is of NCCL 2.28, whose layouts
# ours are, and where the CUDA headers that it needs are there too.
function(cinch_nccl_abi_layout target function)
  add_library(${target} OBJECT nccl_abi_layout.cc)
  target_link_libraries(${target} PRIVATE cinch_options)
  target_include_directories(${target} SYSTEM PRIVATE ${ARGN})
  target_compile_definitions(${target} PRIVATE CINCH_ABI_LAYOUT=${function})
endfunction()

cinch_nccl_abi_layout(nccl_abi_emulator emulatorLayout "${PROJECT_SOURCE_DIR}/emulator/include")
cinch_test(nccl_abi_test
  SOURCES nccl_abi_test.cc $<TARGET_OBJECTS:nccl_abi_emulator>
  LABELS unit TIMEOUT 60)
target_compile_definitions(nccl_abi_test PRIVATE
  CINCH_EMULATED_NCCL="$<TARGET_FILE:cinch_emulator_nccl>")
add_dependencies(nccl_abi_test cinch_emulator_nccl)

find_path(CINCH_NCCL_INCLUDE nccl.h
  HINTS ENV NCCL_HOME PATHS /usr/local/cuda/include PATH_SUFFIXES include)
if(CINCH_NCCL_INCLUDE AND CINCH_CUDA13_INCLUDE)
  file(STRINGS "${CINCH_NCCL_INCLUDE}/nccl.h" nccl_minor
    REGEX "define +NCCL_MINOR +28" LIMIT_COUNT 1)
  if(nccl_minor)
    cinch_nccl_abi_layout(nccl_abi_real realLayout
      "${CINCH_NCCL_INCLUDE}" "${CINCH_CUDA13_INCLUDE}")
    target_sources(nccl_abi_test PRIVATE $<TARGET_OBJECTS:nccl_abi_real>)
    target_compile_definitions(nccl_abi_test PRIVATE CINCH_REAL_NCCL_HEADER)
  endif()
endif()

add_executable(emulator_plain_c plain_c.c)
target_link_libraries(emulator_plain_c PRIVATE cinch_options cinch_emulator_nccl)
add_test(NAME emulator_plain_c COMMAND emulator_plain_c)
set_tests_properties(emulator_plain_c PROPERTIES LABELS unit TIMEOUT 60)
