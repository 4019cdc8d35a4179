# How the export treats its arguments and what is there already.
#
# Usage: cmake -DWORK=DIR -P tests/snippets/export.cmake
cmake_minimum_required(VERSION 3.25)
include("${CMAKE_CURRENT_LIST_DIR}/../says.cmake")
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
  says("${said}" "${text}" reported)
  if(NOT reported)
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
must_say("(-D stands before -P)")
export(bad "out" "")
must_say("no source")
export(bad "one/a.cu" "two/b.cu")
must_say("is a file")
export(bad "out" "one/a.cu;one/missing.cu")
must_say("one/missing.cu:1: no such file")
export(bad "out" "one/a.cu;one")
must_say("one:1: is a folder; name a .cu file")
export(bad "out" "one/a.cu,two/b.cu")
must_say("a semicolon stands between two files, not a comma")
must("a failed export wrote something" NOT EXISTS "${WORK}/out")

# An OUT that cannot be written: below a file, with a file where a folder or
# with a folder where a file must come; and read-only, but to root.
export(bad "one/a.cu/out/deep" "two/b.cu")
must_say("cannot be written; name a folder that you may write")
file(WRITE "${WORK}/blocked/two" "a file\n")
export(bad "blocked" "two/b.cu")
must_say("cannot be written; name a folder that you may write")
file(MAKE_DIRECTORY "${WORK}/taken/two/blue.cu")
export(bad "taken" "two/b.cu")
must_say("taken/two/blue.cu cannot be written")
file(MAKE_DIRECTORY "${WORK}/closed")
file(CHMOD "${WORK}/closed" PERMISSIONS OWNER_READ OWNER_EXECUTE)
execute_process(COMMAND ${CMAKE_COMMAND} -E touch "${WORK}/closed/probe"
  RESULT_VARIABLE closed ERROR_QUIET)
if(NOT closed EQUAL 0)
  export(bad "closed" "two/b.cu")
  must_say("cannot be written; name a folder that you may write")
  export(bad "closed/out" "two/b.cu")
  must_say("cannot be written; name a folder that you may write")
endif()
file(CHMOD "${WORK}/closed" PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE)

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

file(GLOB_RECURSE left LIST_DIRECTORIES TRUE "${WORK}/*")
list(FILTER left INCLUDE REGEX "\\.new-")
list(LENGTH left count)
must("left behind: ${left}" count EQUAL 0)
