# cmake -DROOT=DIR -DZIZMOR=ZIZMOR -DCHECK_JSONSCHEMA=CHECK_JSONSCHEMA
#   [-DACTIONLINT=ACTIONLINT] -P linters.cmake
# The linters of workflow files find nothing.
cmake_minimum_required(VERSION 3.25)

file(GLOB workflows "${ROOT}/.github/workflows/*.yml")
function(run)
  execute_process(
    COMMAND ${ARGN}
    WORKING_DIRECTORY "${ROOT}"
    RESULT_VARIABLE status
    OUTPUT_VARIABLE output
    ERROR_VARIABLE output)
  message(STATUS "${ARGV0}: exit status ${status}")
  if(NOT status EQUAL 0)
    message(SEND_ERROR "${output}")
  endif()
endfunction()

run("${ZIZMOR}" --offline --no-progress .github)
run("${CHECK_JSONSCHEMA}" --builtin-schema vendor.github-workflows
  ${workflows})
if(ACTIONLINT)
  run("${ACTIONLINT}" ${workflows})
else()
  message(STATUS "actionlint: not found here; ci.yml installs and runs it")
endif()
