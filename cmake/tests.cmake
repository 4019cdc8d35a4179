# The tests in Python and what maintainers run, in a virtual environment that
# the build makes from tests/requirements.txt.
set(all "")  # LESSONS_CHECKS: it and the machine code are made unasked
if(LESSONS_CHECKS)
  set(all ALL)
endif()
get_property(cubins GLOBAL PROPERTY lessons_cubins)
add_custom_target(cubins ${all} DEPENDS ${cubins})
file(MAKE_DIRECTORY "${PROJECT_BINARY_DIR}/cubin" "${PROJECT_BINARY_DIR}/tmp")

set(venv "${PROJECT_BINARY_DIR}/venv")
set(made "${venv}/made")  # it is whole; a failed one is tried again
set(why "no virtual environment, see what the build printed")
find_package(Python3 3.10 QUIET COMPONENTS Interpreter)
if(Python3_FOUND)
  add_custom_command(OUTPUT "${made}"
    COMMAND ${CMAKE_COMMAND} "-DPYTHON=${Python3_EXECUTABLE}"
      "-DVENV=${venv}" -DREQUIRE=${LESSONS_REQUIRE_TOOLS}
      -P "${PROJECT_SOURCE_DIR}/cmake/venv.cmake"
    DEPENDS tests/requirements.txt "${Python3_EXECUTABLE}"
    COMMENT "Python packages of the tests (about half a minute)"
    USES_TERMINAL VERBATIM)
else()
  set(made "")
  set(why "Python 3.10 or newer was not found")
  if(LESSONS_CHECKS AND LESSONS_REQUIRE_TOOLS)
    message(FATAL_ERROR "LESSONS_REQUIRE_TOOLS: ${why}.")
  endif()
endif()
add_custom_target(venv ${all} DEPENDS ${made})

# ---- for maintainers
add_custom_target(snippets
  COMMAND ${CMAKE_COMMAND} "-DOUT=${PROJECT_BINARY_DIR}/snippets"
    -P "${PROJECT_SOURCE_DIR}/cmake/snippets.cmake"
  COMMENT "Snippets for page generators" VERBATIM)
set(environment "PATH=${venv}/bin:$ENV{PATH}" "CMAKE=${CMAKE_COMMAND}"
  "CUBINS=${PROJECT_BINARY_DIR}/cubin" "NVCC=${CMAKE_CUDA_COMPILER}"
  "LESSONS_REQUIRE_TOOLS=${LESSONS_REQUIRE_TOOLS}" PYTHONDONTWRITEBYTECODE=1)
if(CMAKE_CUDA_HOST_COMPILER)
  list(APPEND environment "NVCC_CCBIN=${CMAKE_CUDA_HOST_COMPILER}"
    "CUDAHOSTCXX=${CMAKE_CUDA_HOST_COMPILER}")
endif()
foreach(tool record faults charts pages toolkits)
  add_custom_target(${tool}
    COMMAND ${CMAKE_COMMAND} -E env ${environment}
      "${venv}/bin/python" "${PROJECT_SOURCE_DIR}/tools/${tool}.py"
    USES_TERMINAL VERBATIM)
  add_dependencies(${tool} venv)
endforeach()

file(WRITE "${PROJECT_BINARY_DIR}/CTestCustom.cmake"
  "set(CTEST_CUSTOM_POST_TEST [[\"${CMAKE_COMMAND}\" -P "
  "\"${PROJECT_SOURCE_DIR}/cmake/closing.cmake\"]])\n")

# ---- one test per file of tests/
if(NOT LESSONS_CHECKS)
  return()
endif()
file(GLOB files CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/test_*.py")
foreach(file IN LISTS files)
  cmake_path(GET file STEM name)
  add_test(NAME ${name}
    COMMAND sh -c [[test -e "$0" || { echo "SKIPPED: $1"; exit 77; }
      shift; exec "$@"]] "${made}" "${why}"
      "${venv}/bin/python" -m pytest -q -rs -n auto -p no:cacheprovider
      "--basetemp=${PROJECT_BINARY_DIR}/tmp/${name}" "${file}"
    WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}")
  set_tests_properties(${name} PROPERTIES
    ENVIRONMENT "${environment}" PROCESSORS 2 TIMEOUT 900)
  if(NOT LESSONS_REQUIRE_TOOLS)
    set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77)
  endif()
endforeach()
