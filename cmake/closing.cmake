# What CTest runs in the build folder after its summary, in which a skipped
# test counts as passed: what ran, failed and was skipped, in words.
cmake_minimum_required(VERSION 3.25)

file(GLOB logs "${CMAKE_BINARY_DIR}/Testing/Temporary/LastTest.log*")
foreach(log IN LISTS logs)  # it has a temporary name while CTest runs
  if(NOT newest OR "${log}" IS_NEWER_THAN "${newest}")
    set(newest "${log}")
  endif()
endforeach()
file(READ "${newest}" log)
string(REGEX REPLACE "[];[\\$\"]" "," log "${log}")  # what would part a list
string(REGEX REPLACE "\n[0-9]+/[0-9]+ Testing: " ";" log "${log}")
list(POP_FRONT log)

foreach(block IN LISTS log)
  string(REGEX MATCH "^[^\n]+" test "${block}")
  # A file of Python tests counts each of them; any other test is one.
  if(block MATCHES "\n([^\n]*[0-9]+ [a-z]+[^\n]*) in [0-9.]+s")
    set(ends "${CMAKE_MATCH_1}")
  elseif(NOT block MATCHES "\nTest Passed\\.\n"  # said without -C, too
      OR block MATCHES "\nCommand: ,NOT_AVAILABLE,")
    set(ends "1 failed")
  elseif(block MATCHES "\nSKIPPED: (([^.\n]|\\.[^ \n])+)")  # a sentence
    set(ends "1 skipped")
    string(APPEND block "\nSKIPPED ,1, ${test}: ${CMAKE_MATCH_1}")
  else()
    set(ends "1 passed")
  endif()
  string(APPEND all " ${ends}")
  if(test MATCHES "^lesson\\.")
    string(APPEND lessons " ${ends}")
  endif()
  string(REGEX MATCHALL "\nSKIPPED ,[0-9]+, [^\n]+" lines "${block}")
  foreach(line IN LISTS lines)  # one list of names per reason
    string(REGEX MATCH " ,[0-9]+, ([^ ]+): (.*)" line "${line}")
    list(APPEND "Skipped: ${CMAKE_MATCH_2}" "${CMAKE_MATCH_1}")
    list(APPEND reasons "${CMAKE_MATCH_2}")
  endforeach()
endforeach()

# total(NAME WORD TEXT): the sum of the numbers before a word.
function(total name word text)
  string(REGEX MATCHALL "[0-9]+ ${word}" found "0 ${word} ${text}")
  string(REGEX REPLACE " ${word};?" "+" found "${found}")
  math(EXPR sum "${found}0")
  set(${name} ${sum} PARENT_SCOPE)
endfunction()
string(REGEX REPLACE " errors?" " failed" all "${all}")
foreach(word IN ITEMS passed failed skipped)
  total(${word} ${word} "${all}")
  total(lesson_${word} ${word} "${lessons}")
endforeach()
set(text "\n")
list(REMOVE_DUPLICATES reasons)
foreach(reason IN LISTS reasons)
  list(REMOVE_DUPLICATES "Skipped: ${reason}")
  list(JOIN "Skipped: ${reason}" ", " names)
  string(APPEND text "Skipped: ${names}: ${reason}\n")
endforeach()
if(lessons)
  string(APPEND text "Lessons: ${lesson_passed} ran without a failed check, "
    "${lesson_failed} failed, ${lesson_skipped} skipped.\n")
endif()
if(lesson_skipped GREATER 0 AND lesson_passed EQUAL 0)
  string(APPEND text
    "No lesson ran here: nothing above says that one is right.\n")
endif()
message("${text}Tests: ${passed} passed, ${failed} failed, ${skipped} skipped")
