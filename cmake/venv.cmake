# cmake -DPYTHON=PYTHON -DVENV=DIR -DREQUIRE=BOOL -P venv.cmake
# The virtual environment of the tests. Where it cannot be made, the build goes
# on without it, unless REQUIRE is on.
execute_process(
  COMMAND "${PYTHON}" -m venv --clear "${VENV}" RESULT_VARIABLE status)
if(status EQUAL 0)
  execute_process(
    COMMAND "${VENV}/bin/python" -m pip install -q --retries 1
      --disable-pip-version-check --only-binary :all: --require-hashes
      -r "${CMAKE_CURRENT_LIST_DIR}/../tests/requirements.txt"
    RESULT_VARIABLE status)
endif()
set(what "the packages of tests/requirements.txt could not be installed (is "
  "there a package index, and the package python3-venv?)")
if(status EQUAL 0)
  file(TOUCH "${VENV}/made")
elseif(REQUIRE)
  message(FATAL_ERROR "LESSONS_REQUIRE_TOOLS: " ${what})
else()
  message(WARNING ${what})
endif()
