# Tests of the workflows, the documents and the formatting. No GPU needed.
# Included after tests/proof.cmake, whose skipped_test() it uses.
if(NOT LESSONS_CHECKS)
  return()
endif()

# ---- the workflows in .github
add_test(NAME ci.workflows
  COMMAND ${CMAKE_COMMAND} -DROOT=${CMAKE_SOURCE_DIR}
    -P ${CMAKE_SOURCE_DIR}/tests/docs/workflows.cmake)

find_program(LESSONS_ZIZMOR zizmor DOC "linter of workflow files")
find_program(LESSONS_CHECK_JSONSCHEMA check-jsonschema
  DOC "checks workflow files against their schema")
find_program(LESSONS_ACTIONLINT actionlint DOC "linter of workflow files")
if(LESSONS_ZIZMOR AND LESSONS_CHECK_JSONSCHEMA)
  add_test(NAME ci.linters
    COMMAND ${CMAKE_COMMAND} -DROOT=${CMAKE_SOURCE_DIR}
      -DZIZMOR=${LESSONS_ZIZMOR}
      -DCHECK_JSONSCHEMA=${LESSONS_CHECK_JSONSCHEMA}
      $<$<BOOL:${LESSONS_ACTIONLINT}>:-DACTIONLINT=${LESSONS_ACTIONLINT}>
      -P ${CMAKE_SOURCE_DIR}/tests/docs/linters.cmake
    COMMAND_EXPAND_LISTS)
else()
  skipped_test(ci.linters "zizmor and check-jsonschema not found")
endif()

# ---- the documents
get_property(lessons GLOBAL PROPERTY LESSONS)
add_test(NAME docs.readme
  COMMAND ${CMAKE_COMMAND} -DROOT=${CMAKE_SOURCE_DIR} "-DLESSONS=${lessons}"
    -P ${CMAKE_SOURCE_DIR}/tests/docs/readme.cmake)
add_test(NAME docs.failures
  COMMAND ${CMAKE_COMMAND} -DROOT=${CMAKE_SOURCE_DIR}
    -DBUILD=${CMAKE_BINARY_DIR} -DCTEST=${CMAKE_CTEST_COMMAND}
    -P ${CMAKE_SOURCE_DIR}/tests/docs/failures.cmake)
add_test(NAME docs.can-fail
  COMMAND ${CMAKE_COMMAND} -DROOT=${CMAKE_SOURCE_DIR}
    -DBUILD=${CMAKE_BINARY_DIR} -DCTEST=${CMAKE_CTEST_COMMAND}
    -DWORK=${CMAKE_BINARY_DIR}/docs-can-fail
    "-DLESSONS=${lessons}"
    -P ${CMAKE_SOURCE_DIR}/tests/docs/can_fail.cmake)
if(NOT WIN32 AND NOT LESSONS_ARCH)
  add_test(NAME docs.recipe
    COMMAND ${CMAKE_COMMAND} -DROOT=${CMAKE_SOURCE_DIR}
      -DWORK=${CMAKE_BINARY_DIR}/recipe -DNVCC=${CMAKE_CUDA_COMPILER}
      -DCTEST=${CMAKE_CTEST_COMMAND}
      -P ${CMAKE_SOURCE_DIR}/tests/docs/recipe.cmake)
endif()

# ---- formatting: releases of clang-format differ, so it is one release
find_program(LESSONS_CLANG_FORMAT NAMES clang-format clang-format-14
  DOC "clang-format 14")
set(version "")
if(LESSONS_CLANG_FORMAT)
  execute_process(COMMAND "${LESSONS_CLANG_FORMAT}" --version
    OUTPUT_VARIABLE version)
endif()
if(version MATCHES "version 14\\.")
  add_test(NAME format
    COMMAND ${CMAKE_COMMAND} -DROOT=${CMAKE_SOURCE_DIR}
      -DCLANG_FORMAT=${LESSONS_CLANG_FORMAT}
      -P ${CMAKE_SOURCE_DIR}/tests/docs/format.cmake)
else()
  skipped_test(format "clang-format 14 not found")
endif()
