# The same source once per header set; the toolkit's only where it is CUDA 13.
function(cinch_cudart_abi_table target function include_dir)
  add_library(${target} OBJECT cudart_abi_table.cc)
  target_link_libraries(${target} PRIVATE cinch_options)
  target_include_directories(${target} SYSTEM PRIVATE "${include_dir}")
  target_compile_definitions(${target} PRIVATE CINCH_ABI_TABLE=${function} ${ARGN})
endfunction()

find_path(CINCH_CUDA13_INCLUDE cuda_runtime_api.h
  HINTS ENV CUDA_HOME PATHS /usr/local/cuda/include /usr/local/cuda-13/include
  PATH_SUFFIXES include NO_CMAKE_FIND_ROOT_PATH)
find_file(CINCH_CUDA13_LIBRARY libcudart.so.13
  HINTS ENV CUDA_HOME PATHS /usr/local/cuda /usr/local/cuda-13 PATH_SUFFIXES lib64 lib)

set(toolkit_missing "cuda_runtime_api.h not found")
if(CINCH_CUDA13_INCLUDE)
  file(STRINGS "${CINCH_CUDA13_INCLUDE}/cuda_runtime_api.h" version_line
    REGEX "define +CUDART_VERSION +13" LIMIT_COUNT 1)
  if(version_line)
    set(toolkit_missing "")
  else()
    set(toolkit_missing "another version in ${CINCH_CUDA13_INCLUDE}")
  endif()
endif()

cinch_cudart_abi_table(cudart_abi_emulator emulatorHeaders "${PROJECT_SOURCE_DIR}/emulator/include")
cinch_test(cudart_abi_test
  SOURCES cudart_abi_test.cc $<TARGET_OBJECTS:cudart_abi_emulator>
  LIBS cinch_emulator_cudart LABELS unit TIMEOUT 60)
target_compile_definitions(cudart_abi_test PRIVATE
  CINCH_EMULATED_CUDART="$<TARGET_FILE:cinch_emulator_cudart>"
  CINCH_EMULATED_DRIVER="$<TARGET_FILE:cinch_emulator_driver>")
add_dependencies(cudart_abi_test cinch_emulator_driver)

if(toolkit_missing STREQUAL "")
  cinch_cudart_abi_table(cudart_abi_toolkit toolkitHeaders "${CINCH_CUDA13_INCLUDE}"
    CINCH_TOOLKIT_HEADERS)
  target_sources(cudart_abi_test PRIVATE $<TARGET_OBJECTS:cudart_abi_toolkit>)
  target_compile_definitions(cudart_abi_test PRIVATE CINCH_TOOLKIT_HEADERS)
else()
  target_compile_definitions(cudart_abi_test PRIVATE CINCH_TOOLKIT_MISSING="${toolkit_missing}")
endif()
if(CINCH_CUDA13_LIBRARY)
  target_compile_definitions(cudart_abi_test PRIVATE CINCH_REAL_CUDART="${CINCH_CUDA13_LIBRARY}")
endif()
