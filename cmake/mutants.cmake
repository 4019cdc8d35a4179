# Planted faults: single edits of the lessons that a student really makes, and
# what must catch each of them.
#
#   cmake [-DNVCC=nvcc] [-DCUOBJDUMP=cuobjdump] [-DONLY=day25-reduction]
#         [-DWORK=DIR] [-DROOT=DIR] -P cmake/mutants.cmake
#
# Without a GPU: every edit must match exactly once, the edits that the
# compiler must catch are compiled, and so are those that the rules over the
# machine code must catch (without CUOBJDUMP they are not).
#
#   cmake -DRUN=ON [-DARCH=native] [-DRECORD=ON] [-DJOBS=4] [-DSANITIZER=...]
#
# On a GPU: all are built and run, JOBS at a time, and with RECORD what caught
# each of them is kept as evidence/LESSON/mutants-DATE-GPU.txt, where all were
# caught.
#
# tests/mutants/LESSON.txt holds the edits of a lesson:
#
#   === name-of-the-edit
#   What the student does, in a line or more.
#   caught: exit 1
#   --- find
#   text of the lesson, which must stand in it exactly once
#   --- replace
#   what the student writes
#
# caught is one of
#   exit 1              the program's own checks: it prints FAILED, returns 1
#   compiler: TEXT      nvcc stops, and its message contains TEXT
#   machine code: RULE  a rule of tests/machine-code/LESSON.cmake is broken
#   memcheck, racecheck, synccheck, initcheck   that tool of compute-sanitizer
# The last two are for what no run shows; research/LESSON.md must name such an
# edit, in backquotes, and say why.
# A line `flags: FLAG...` replaces the default, -DLESSON_QUICK.
cmake_minimum_required(VERSION 3.25)
include("${CMAKE_CURRENT_LIST_DIR}/evidence-file.cmake")
include("${CMAKE_CURRENT_LIST_DIR}/programs.cmake")
default(NVCC nvcc)
default(NVIDIA_SMI nvidia-smi)
default(SANITIZER compute-sanitizer)
default(WORK "${ROOT}/build/mutants-work")
default(TIMEOUT 40)  # seconds a run; ten times as many under a sanitizer
default(JOBS 2)  # runs at a time; each may need a gigabyte of the card
default(LEAST 10)  # edits a lesson

# read_mutants(path folder): reads the edits of a lesson; the global property
# MUTANTS lists their ids, and "ID KEY" holds each part.
function(read_mutants path folder)
  read_text("${path}" "tests/mutants/${folder}.txt" text ok)
  if(NOT ok)
    return()
  endif()
  set(id "")
  set(part "")
  set(number 0)
  while(NOT text STREQUAL "")
    take_line(text line)
    if(line MATCHES "^=== ([a-z0-9-]+)$")
      math(EXPR number "${number} + 1")
      set(name "${CMAKE_MATCH_1}")
      set(digits "0${number}")
      string(REGEX REPLACE "^0(..)$" "\\1" digits "${digits}")
      set(id "${folder}.${digits}-${name}")
      set_property(GLOBAL APPEND PROPERTY MUTANTS "${id}")
      set(part head)
      set_property(GLOBAL PROPERTY "${id} flags" "-DLESSON_QUICK")
    elseif(line MATCHES "^=== ")
      fault("tests/mutants/${folder}.txt: '${line}' is no name; use a-z, 0-9 and -")
      set(id "")
    elseif(id STREQUAL "")
      continue()
    elseif(line STREQUAL "--- find")
      set(part find)
    elseif(line STREQUAL "--- replace")
      set(part replace)
    elseif(part STREQUAL "head" AND line MATCHES "^(caught|flags): *(.*)$")
      set_property(GLOBAL PROPERTY "${id} ${CMAKE_MATCH_1}"
        "${CMAKE_MATCH_2}")
    elseif(part MATCHES "find|replace")
      set_property(GLOBAL APPEND_STRING PROPERTY "${id} ${part}" "${line}\n")
    endif()
  endwhile()
endfunction()

# get(variable id key): one part of an edit, less its last newline.
function(get variable id key)
  get_property(value GLOBAL PROPERTY "${id} ${key}")
  string(REGEX REPLACE "\n$" "" value "${value}")
  set(${variable} "${value}" PARENT_SCOPE)
endfunction()

# apply(id text result): the lesson with the edit made, or a fault.
function(apply id text_name result_name)
  get(find "${id}" find)
  get(replace "${id}" replace)
  set(text "${${text_name}}")
  if(find STREQUAL "" OR find STREQUAL replace)
    fault("${id}: nothing to find, or nothing changed")
    return()
  endif()
  string(FIND "${text}" "${find}" at)
  string(FIND "${text}" "${find}" last REVERSE)
  if(at EQUAL -1)
    fault("${id}: the lesson does not hold the text to find:\n${find}")
  elseif(NOT at EQUAL last)
    fault("${id}: the text to find stands in the lesson more than once:\n${find}")
  else()
    string(LENGTH "${find}" length)
    string(SUBSTRING "${text}" 0 ${at} head)
    math(EXPR at "${at} + ${length}")
    string(SUBSTRING "${text}" ${at} -1 tail)
    set(${result_name} "${head}${replace}${tail}" PARENT_SCOPE)
  endif()
endfunction()

# verdict(id what): what caught an edit, or that nothing did.
function(verdict id caught what)
  string(REPLACE "\n" " " what "${what}")
  string(REPLACE "${WORK}/" "" what "${what}")
  string(SUBSTRING "${what}" 0 150 what)
  get(expected "${id}" caught)
  set(line "${id}: ")
  if(caught)
    string(APPEND line "caught by ${what}")
  else()
    string(APPEND line "NOT CAUGHT, expected ${expected}: ${what}")
    fault("${line}")
  endif()
  set_property(GLOBAL PROPERTY "${id} verdict" "${line}")
  get_property(left GLOBAL PROPERTY LEFT)
  math(EXPR left "${left} - 1")
  set_property(GLOBAL PROPERTY LEFT ${left})
  message("${line} (${left} left)")
endfunction()

# The first line of `output` that matches, or its last line.
function(first_line output_name pattern line_name)
  string(REGEX MATCH "[^\n]*${pattern}[^\n]*" line "${${output_name}}")
  if(line STREQUAL "")
    string(STRIP "${${output_name}}" line)
    string(REGEX REPLACE ".*\n" "" line "${line}")
  endif()
  string(STRIP "${line}" line)
  set(${line_name} "${line}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE "${WORK}")
file(MAKE_DIRECTORY "${WORK}")
lessons_listed("${ROOT}" listed)
set(lessons "")
foreach(lesson IN LISTS listed)
  lesson_parts("${lesson}")
  if(NOT ONLY OR folder STREQUAL ONLY)
    list(APPEND lessons "${lesson}")
  endif()
endforeach()

# Make every edit, and say how each is compiled.
set(host "")
if(HOST)
  set(host "-ccbin=${HOST}")
endif()
set(total 0)
foreach(lesson IN LISTS lessons)
  lesson_parts("${lesson}")
  set(build_arch "sm_${arch}")
  if(RUN AND ARCH)
    set(build_arch "${ARCH}")
  elseif(RUN)
    set(build_arch native)
  endif()
  set(compile "${NVCC}" ${host} -std=c++17 -O3 -arch=${build_arch}
    -DLESSON_NO_CUB)
  set_property(GLOBAL PROPERTY MUTANTS "")
  read_mutants("${ROOT}/tests/mutants/${folder}.txt" "${folder}")
  get_property(ids GLOBAL PROPERTY MUTANTS)
  list(LENGTH ids count)
  if(count LESS LEAST)
    fault("tests/mutants/${folder}.txt: ${count} edits; write at least ${LEAST}")
  endif()
  read_text("${ROOT}/${source}" "${source}" text ok)
  read_text("${ROOT}/research/${folder}.md" "research/${folder}.md" claims ok)
  set(ids_${folder} "")
  set(unseen_${folder} 0)
  foreach(id IN LISTS ids)
    set(edited "")
    apply("${id}" text edited)
    if(edited STREQUAL "")
      continue()
    endif()
    list(APPEND ids_${folder} "${id}")
    math(EXPR total "${total} + 1")
    file(WRITE "${WORK}/${id}.cu" "${edited}")
    get(caught "${id}" caught)
    get(flags "${id}" flags)
    separate_arguments(flags)
    if(NOT caught MATCHES "^(exit 1|compiler: .*)$")
      math(EXPR unseen_${folder} "${unseen_${folder}} + 1")
      string(REGEX REPLACE "^.*\\.[0-9][0-9]-" "" edit "${id}")
      string(FIND "${claims}" "`${edit}`" at)
      if(at EQUAL -1)
        fault("${id}: no run shows it, and research/${folder}.md does not say why: name `${edit}` there")
      endif()
    endif()
    if(caught MATCHES "^compiler: .")
      # Whoever compiles it is stopped: with the lesson's own flags.
      add_program("${WORK}" "${id}" ${compile} ${flags} -cubin
        -o "${WORK}/${id}.cubin" "${WORK}/${id}.cu")
    elseif(caught MATCHES "^machine code: .")
      if(CUOBJDUMP)
        add_program("${WORK}" "${id}" "${NVCC}" ${host} -std=c++17 -O3
          -arch=sm_${arch} -DLESSON_NO_CUB -cubin
          -o "${WORK}/${id}.cubin" "${WORK}/${id}.cu")
      endif()
    elseif(caught MATCHES "^(exit 1|(mem|race|sync|init)check)$")
      if(RUN)
        add_program("${WORK}" "${id}" ${compile} ${flags}
          -o "${WORK}/${id}.exe" "${WORK}/${id}.cu")
      endif()
    else()
      fault("${id}: caught by '${caught}'? One of exit 1, compiler: TEXT, machine code: RULE, memcheck, racecheck, synccheck, initcheck")
    endif()
  endforeach()
  if(RUN AND NOT ids STREQUAL "")
    # The lesson as it is: it must pass where the edits fail.
    add_program("${WORK}" "${folder}.unchanged" ${compile} -DLESSON_QUICK
      -o "${WORK}/${folder}.unchanged.exe" "${ROOT}/${source}")
  endif()
endforeach()
stop_on_faults("planted faults: these edits are wrong; nothing was compiled")
build_programs("${WORK}")

# Run what was built; how each run ended is judged below.
if(RUN)
  foreach(lesson IN LISTS lessons)
    lesson_parts("${lesson}")
    foreach(id IN LISTS ids_${folder} ITEMS "${folder}.unchanged")
      get(caught "${id}" caught)
      set(program "${WORK}/${id}.exe")
      if(NOT EXISTS "${program}")
        continue()  # it does not compile, or needs no run
      endif()
      set(command "${program}")
      set(limit ${TIMEOUT})
      if(caught MATCHES "check$")
        set(command "${SANITIZER}" --tool ${caught} --error-exitcode 99
          --print-limit 1 "${program}")
        if(caught STREQUAL "memcheck")
          list(INSERT command 1 --leak-check full)
        endif()
        math(EXPR limit "10 * ${TIMEOUT}")
      endif()
      add_run("${WORK}/run" "${id}" ${limit} ${command})
    endforeach()
  endforeach()
  build_programs("${WORK}/run" ${JOBS})
endif()

set_property(GLOBAL PROPERTY LEFT ${total})

foreach(lesson IN LISTS lessons)
  lesson_parts("${lesson}")
  if(RUN)
    program_status("${WORK}" "${folder}.unchanged" status log)
    if(status EQUAL 0)
      program_status("${WORK}/run" "${folder}.unchanged" status log)
    endif()
    if(NOT status EQUAL 0)
      message(FATAL_ERROR "${folder}: the lesson itself ends with status "
        "${status} here, so its edits prove nothing:\n${log}")
    endif()
    evidence_sms(log)
  endif()
  foreach(id IN LISTS ids_${folder})
    get(caught "${id}" caught)
    set(status "")
    if(EXISTS "${WORK}/${id}.status")
      program_status("${WORK}" "${id}" status log)
    endif()

    if(caught MATCHES "^compiler: (.*)$")
      set(wanted "${CMAKE_MATCH_1}")
      string(FIND "${log}" "${wanted}" at)
      if(status EQUAL 0)
        verdict("${id}" FALSE "it compiles")
      elseif(at EQUAL -1)
        first_line(log "error" line)
        verdict("${id}" FALSE "the compiler says: ${line}")
      else()
        verdict("${id}" TRUE "the compiler: ${wanted}")
      endif()
      continue()
    endif()
    if(status STREQUAL "")
      verdict("${id}" TRUE "${caught}, on a GPU: not run here")
      continue()
    endif()
    if(NOT status EQUAL 0)
      first_line(log "error" line)
      verdict("${id}" FALSE "it does not compile: ${line}")
      continue()
    endif()

    if(caught MATCHES "^machine code: (.*)$")
      set(wanted "${CMAKE_MATCH_1}")
      execute_process(
        COMMAND ${CMAKE_COMMAND}
          "-DRULES=${ROOT}/tests/machine-code/${folder}.cmake"
          "-DCUBIN=${WORK}/${id}.cubin" -DARCH=${arch}
          "-DCUOBJDUMP=${CUOBJDUMP}"
          -P "${CMAKE_CURRENT_LIST_DIR}/../tests/machine-code/engine.cmake"
        RESULT_VARIABLE status OUTPUT_VARIABLE log ERROR_VARIABLE log)
      string(FIND "${log}" "${wanted}:" at)
      if(status EQUAL 0 OR at EQUAL -1)
        first_line(log "has " line)
        verdict("${id}" FALSE "the rules say: ${line}")
      else()
        first_line(log "${wanted}:" line)
        verdict("${id}" TRUE "the machine code: ${line}")
      endif()
      continue()
    endif()

    set(said "FAILED")
    if(NOT caught STREQUAL "exit 1")
      set(said "SUMMARY")
    endif()
    program_status("${WORK}/run" "${id}" status log)
    first_line(log "${said}" line)
    if(caught STREQUAL "exit 1" AND status EQUAL 1 AND line MATCHES "FAILED")
      verdict("${id}" TRUE "exit 1: ${line}")
    elseif(NOT caught STREQUAL "exit 1" AND status EQUAL 99)
      verdict("${id}" TRUE "${caught}: ${line}")
    else()
      verdict("${id}" FALSE "status ${status}: ${line}")
    endif()
  endforeach()
endforeach()

if(RUN AND RECORD)
  evidence_start()
  set(ev_cubin-sha256 "n/a")
  set(ev_compile-command
    "nvcc -std=c++17 -O3 -arch=native -DLESSON_NO_CUB -DLESSON_QUICK")
  set(ev_run-command "cmake -DRUN=ON -DRECORD=ON -P cmake/mutants.cmake")
  foreach(lesson IN LISTS lessons)
    lesson_parts("${lesson}")
    set(edits "tests/mutants/${folder}.txt")
    file(SHA256 "${ROOT}/${edits}" sha256)
    set(body "${edits}: ${sha256}\n")
    set(all TRUE)
    foreach(id IN LISTS ids_${folder})
      get(line "${id}" verdict)
      if(NOT line MATCHES ": caught by " OR line MATCHES "not run here")
        set(all FALSE)
      endif()
      string(APPEND body "${line}\n")
    endforeach()
    if(NOT all)
      message("${folder}: not all were caught, so nothing is recorded")
      continue()
    endif()
    list(LENGTH ids_${folder} count)
    math(EXPR seen "${count} - ${unseen_${folder}}")
    string(APPEND body "${count} edits, ${seen} caught by the compiler or by "
      "exit 1; research/${folder}.md says why no run shows the others\n")
    write_text("${WORK}/${folder}.body" body)
    evidence_record("evidence/${folder}/mutants-${today}-${slug}.txt"
      "${WORK}/${folder}.body")
  endforeach()
endif()
stop_on_faults("planted faults: these were not caught")
message("planted faults: ${total} edits, all as expected")
