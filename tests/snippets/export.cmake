# How the export treats its arguments and what is there already.
#
# Usage: cmake -DWORK=DIR -P tests/snippets/export.cmake
cmake_minimum_required(VERSION 3.25)
cmake_path(GET CMAKE_CURRENT_LIST_DIR PARENT_PATH tests)
cmake_path(GET tests PARENT_PATH root)
file(REMOVE_RECURSE "${WORK}")

# export(good|bad out sources): runs the export; sets `said`.
function(export wanted out sources)
  execute_process(
    COMMAND ${CMAKE_COMMAND} "-DOUT=${out}" "-DSOURCES=${sources}"
      -P "${root}/cmake/snippets.cmake"
    WORKING_DIRECTORY "${WORK}"
    RESULT_VARIABLE status OUTPUT_VARIABLE stdout ERROR_VARIABLE stderr)
  if(wanted STREQUAL "good" AND NOT status EQUAL 0)
    message(FATAL_ERROR "export of ${sources} failed:\n${stderr}")
  elseif(wanted STREQUAL "bad" AND status EQUAL 0)
    message(FATAL_ERROR "export of ${sources} did not fail:\n${stdout}")
  endif()
  set(said "${stderr}" PARENT_SCOPE)
endfunction()
function(must condition_text)
  if(NOT (${ARGN}))
    message(FATAL_ERROR "${condition_text}")
  endif()
endfunction()
function(must_say text)
  string(REGEX REPLACE "[ \n]+" " " said "${said}")  # CMake wraps messages
  string(FIND "${said}" "${text}" at)
  if(at EQUAL -1)
    message(FATAL_ERROR "'${text}' is not in:\n${said}")
  endif()
endfunction()
function(source path names)
  set(text "")
  foreach(name IN LISTS names)
    string(APPEND text "// snippet: ${name}\nint ${name};\n// end snippet\n")
  endforeach()
  file(WRITE "${WORK}/${path}" "${text}")
endfunction()

source(one/a.cu "red;green")
source(two/b.cu "blue")

export(bad "" "")
must_say("OUT is missing")
export(bad "out" "")
must_say("no source")
export(bad "one/a.cu" "two/b.cu")
must_say("is a file")
export(bad "out" "one/a.cu;one/missing.cu")
must_say("one/missing.cu:1: no such file")
must("a failed export wrote something" NOT EXISTS "${WORK}/out")

# A folder name with a space and a relative OUT, two lessons, one twice.
export(good "an out" "one/a.cu;two/b.cu;one/../one/a.cu")
set(out "${WORK}/an out")
foreach(file IN ITEMS one/red.cu one/green.cu two/blue.cu index.tsv)
  must("${file} is missing" EXISTS "${out}/${file}")
endforeach()
file(STRINGS "${out}/index.tsv" rows)
list(LENGTH rows count)
must("the index has ${count} lines" count EQUAL 4)

# A region renamed: the old file goes; the other lesson and a file that no
# export wrote stay.
file(WRITE "${out}/one/mine.cu" "mine\n")
source(one/a.cu "red;yellow")
export(good "an out" "one/a.cu")
must("one/green.cu is stale" NOT EXISTS "${out}/one/green.cu")
foreach(file IN ITEMS one/red.cu one/yellow.cu one/mine.cu two/blue.cu)
  must("${file} is missing" EXISTS "${out}/${file}")
endforeach()
file(READ "${out}/index.tsv" index)
must("the index lost the other lesson" index MATCHES "\ntwo\tblue\t")
must("the index holds a stale row" NOT index MATCHES "green")

# The same again changes nothing; a fault changes nothing either.
file(SHA256 "${out}/index.tsv" before)
export(good "an out" "one/a.cu")
source(one/a.cu "red;red2")
export(bad "an out" "one/a.cu;two/b.cu")
must_say("one is the start of the other")
file(SHA256 "${out}/index.tsv" after)
must("the index changed" before STREQUAL after)
must("one/yellow.cu is missing" EXISTS "${out}/one/yellow.cu")

# One name in two files of a lesson; an export onto its own source.
source(one/a.cu "red")
source(one/b.cu "red")
export(bad "an out" "one/a.cu;one/b.cu")
must_say("one/b.cu:1: snippet 'red' stands at")
source(three/blue.cu "blue")
export(bad "." "three/blue.cu")
must_say("would overwrite this source")

file(GLOB left "${WORK}/*.new-*")
list(LENGTH left count)
must("left behind: ${left}" count EQUAL 0)
