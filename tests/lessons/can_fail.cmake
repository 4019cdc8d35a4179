# cmake -DROOT=DIR "-DSOURCES=a.cu;b.cu" -DWORK=DIR -P can_fail.cmake
# The tests helpers, rows and listed fail when they should: each is run on a
# copy of a lesson with one fault.
cmake_minimum_required(VERSION 3.25)
include("${CMAKE_CURRENT_LIST_DIR}/../says.cmake")

file(REMOVE_RECURSE "${WORK}")
list(GET SOURCES 0 source)
foreach(one IN LISTS SOURCES)
  cmake_path(GET one PARENT_PATH folder)
  file(COPY "${ROOT}/${folder}" DESTINATION "${WORK}"
    FILES_MATCHING PATTERN "*.cu" PATTERN "README.md")
endforeach()
file(COPY "${ROOT}/research" DESTINATION "${WORK}")

# run(SCRIPT TEXT): the test reports TEXT; with an empty TEXT it passes.
function(run script text)
  execute_process(
    COMMAND ${CMAKE_COMMAND} "-DROOT=${WORK}" "-DSOURCE=${WORK}/${source}"
      "-DSOURCES=${SOURCES}" -P "${ROOT}/tests/lessons/${script}.cmake"
    RESULT_VARIABLE status
    ERROR_VARIABLE output)
  must_report("${script}" "${status}" "${output}" "${text}")
endfunction()

# Replaces `old`, which must be there, by `new` in the copy of the lesson.
function(edit old new)
  file(READ "${ROOT}/${source}" text)
  string(FIND "${text}" "${old}" at)
  if(at EQUAL -1)
    message(FATAL_ERROR "${source}: no `${old}` to edit")
  endif()
  string(LENGTH "${old}" length)
  string(SUBSTRING "${text}" 0 ${at} before)
  math(EXPR after "${at} + ${length}")
  string(SUBSTRING "${text}" ${after} -1 after)
  file(WRITE "${WORK}/${source}" "${before}${new}${after}")
endfunction()

run(helpers "")
run(rows "")
run(listed "")

edit("kBatches" "kBatchez")
run(helpers "differs")
edit("// ---- end of helpers " "// ---- the end ")
run(helpers "no helper block")
edit("{\"copy (ceiling)\"," "{\"copy\",")
run(rows "promises")
edit("\n// Rows:\n" "\n// Rows:\n//   v99 unknown  a row that is not there\n")
run(rows "v99 unknown")
edit("\n// Rows:\n" "\n// Table:\n")
run(rows "no `// Rows:`")

configure_file("${ROOT}/${source}" "${WORK}/${source}" COPYONLY)
cmake_path(GET source PARENT_PATH folder)
file(REMOVE "${WORK}/research/${folder}.md")
run(listed "research/${folder}.md is missing")
file(COPY "${ROOT}/research" DESTINATION "${WORK}")
file(WRITE "${WORK}/day99-new/new.cu" "\n")
run(listed "day99-new/new.cu is not listed")
