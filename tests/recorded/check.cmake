# What machines with a GPU recorded of a lesson: it is there, and it says what
# it must. (The test `evidence` holds the headers against the tree.)
#
#   cmake -DROOT=DIR -DKIND=mutants -DFOLDER=day25-reduction
#         -P tests/recorded/check.cmake
#
# KIND: mutants, sanitizer or hostile.
cmake_minimum_required(VERSION 3.25)
include(${CMAKE_CURRENT_LIST_DIR}/../../cmake/evidence-file.cmake)

# must_say(text): the body holds this text.
function(must_say text)
  string(FIND "${in_body}" "${text}" at)
  if(at EQUAL -1)
    fault("${shown}:1: does not say `${text}`; record it with the target `${KIND}` on a machine with a GPU")
  endif()
endfunction()

file(GLOB records "${ROOT}/evidence/${FOLDER}/${KIND}-*.txt")
if("${records}" STREQUAL "")
  message(FATAL_ERROR "evidence/${FOLDER} has no ${KIND}-*.txt: on a machine "
    "with a GPU, build the target `${KIND}`")
endif()
foreach(record IN LISTS records)
  show_path("${record}" "${ROOT}" shown)
  evidence_read("${record}" "${shown}" ok)
  if(KIND STREQUAL "mutants")
    set(edits "tests/mutants/${FOLDER}.txt")
    file(SHA256 "${ROOT}/${edits}" sha256)
    must_say("${edits}: ${sha256}\n")
    file(STRINGS "${ROOT}/${edits}" names REGEX "^=== ")
    foreach(name IN LISTS names)
      string(REPLACE "=== " "-" name "${name}")
      must_say("${name}: caught by ")
    endforeach()
    list(LENGTH names names)
    string(REGEX MATCHALL ": caught by " caught "${in_body}")
    list(LENGTH caught caught)
    if(NOT names EQUAL caught)
      fault("${shown}:1: ${caught} caught, but there are ${names} edits")
    endif()
  elseif(KIND STREQUAL "sanitizer")
    foreach(tool memcheck racecheck synccheck initcheck)
      must_say("compute-sanitizer --tool ${tool} ")
    endforeach()
    must_say("LEAK SUMMARY: 0 bytes leaked in 0 allocations\n")
    must_say("RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)")
    string(REGEX MATCHALL "ERROR SUMMARY: 0 errors\n" clean "${in_body}")
    string(REGEX MATCHALL "exit status 0\n" ended "${in_body}")
    list(LENGTH clean clean)
    list(LENGTH ended ended)
    if(clean LESS 3 OR NOT ended EQUAL 4)
      fault("${shown}:1: not every tool ended clean")
    endif()
  elseif(KIND STREQUAL "hostile")
    foreach(case "no device visible" "a device that does not exist"
        "PTX switched off" "compute capability 99.0" "800 MB free"
        "100 MB free" "twice at once" "100 runs in a row")
      must_say("${case}")
    endforeach()
    if(NOT in_body MATCHES "\n[1-9][0-9]* runs at full size")
      fault("${shown}:1: no runs at full size")
    endif()
    # Nine cases: each is skipped or right, and those of many runs are right.
    string(REGEX MATCHALL
      "\n  exit status (77: SKIPPED|0: All checks passed|0: 0 failures)"
      ended "${in_body}")
    string(REGEX MATCHALL "\n  exit status 0: 0 failures\n" many "${in_body}")
    list(LENGTH ended ended)
    list(LENGTH many many)
    if(in_body MATCHES "FAILED" OR NOT ended EQUAL 9 OR NOT many EQUAL 2)
      fault("${shown}:1: a run did not end as it must")
    endif()
  else()
    message(FATAL_ERROR "KIND=${KIND}: one of mutants, sanitizer, hostile")
  endif()
endforeach()
stop_on_faults("${KIND}: what is recorded of ${FOLDER} does not suffice")
