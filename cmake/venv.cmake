# cmake -DPYTHON=PYTHON -DVENV=DIR -DREQUIRE=BOOL -P cmake/venv.cmake
# Makes the virtual environment of the tests; DIR/made says that it is whole.
# Where that fails it is tried again by the next build, and the build goes on
# without it unless REQUIRE is on.
set(requirements "${CMAKE_CURRENT_LIST_DIR}/../tests/requirements.txt")
file(REMOVE_RECURSE "${VENV}")
execute_process(
  COMMAND "${PYTHON}" -m venv "${VENV}"
  RESULT_VARIABLE status OUTPUT_VARIABLE said ERROR_VARIABLE said)
if(status EQUAL 0)
  execute_process(
    COMMAND "${VENV}/bin/python" -m pip install --quiet --retries 1
      --disable-pip-version-check --only-binary :all: --require-hashes
      -r "${requirements}"
    RESULT_VARIABLE status OUTPUT_VARIABLE said ERROR_VARIABLE said)
endif()
if(status EQUAL 0)
  file(WRITE "${VENV}/made" "")
  return()
endif()
set(why "the tests in Python are skipped")
set(kind WARNING)
if(REQUIRE)
  set(why "LESSONS_REQUIRE_TOOLS")
  set(kind FATAL_ERROR)
endif()
message(NOTICE "${said}")
message(${kind} "${why}: the packages of tests/requirements.txt could not be "
  "installed (is there a package index, and the package python3-venv?)")
