# What the target `evidence` records, and what it refuses to.
#
# Usage: cmake -DCASE=NAME -DWORK=DIR -P tests/evidence/record.cmake
cmake_minimum_required(VERSION 3.25)
include("${CMAKE_CURRENT_LIST_DIR}/../says.cmake")
set(here "${CMAKE_CURRENT_LIST_DIR}")
cmake_path(GET here PARENT_PATH tests)
cmake_path(GET tests PARENT_PATH root)
file(REMOVE_RECURSE "${WORK}")
file(COPY "${tests}/tree" DESTINATION "${WORK}")
set(tree "${WORK}/tree")
set(evidence "${tree}/evidence/day01-first")
set(old "${evidence}/run-2026-01-02-test-gpu-sm_75.txt")
set(smi "${here}/fake/nvidia-smi")
set(commit -DGIT_COMMIT=abcdef0123abcdef0123abcdef0123abcdef0123
  -DGIT_DIRTY=no)

# record(): runs the script; sets `status`, `said` and `files`.
macro(record)
  execute_process(
    COMMAND ${CMAKE_COMMAND} "-DROOT=${tree}" "-DWORK=${WORK}/work"
      "-DNVCC=${here}/fake/nvcc" "-DNVIDIA_SMI=${smi}"
      "-DLESSONS=day01-first/first.cu|75" ${commit}
      -P "${root}/cmake/evidence.cmake"
    RESULT_VARIABLE status OUTPUT_VARIABLE stdout ERROR_VARIABLE stderr)
  string(REGEX REPLACE "[ \n]+" " " said "${stdout}${stderr}")
  file(GLOB files "${evidence}/*")
endmacro()
# check(argument...): runs the check on the tree; sets `status` and `said`.
macro(check)
  execute_process(
    COMMAND ${CMAKE_COMMAND} -DCHECK=ON "-DROOT=${tree}" ${ARGN}
      -P "${root}/cmake/evidence.cmake"
    RESULT_VARIABLE status OUTPUT_VARIABLE stdout ERROR_VARIABLE said)
endmacro()
# refused(text): nothing was recorded, and the output says why.
macro(refused text)
  says("${said}" "${text}" reported)
  if(status EQUAL 0 OR NOT reported OR NOT files STREQUAL old)
    message(FATAL_ERROR "status ${status}, files ${files}, said:\n${said}")
  endif()
endmacro()

if(CASE STREQUAL "good" OR CASE STREQUAL "again")
  record()
  if(CASE STREQUAL "again")
    record()
  endif()
  string(TIMESTAMP today "%Y-%m-%d" UTC)
  if(NOT status EQUAL 0 OR
      NOT files STREQUAL "${evidence}/run-${today}-test-gpu-sm_75.txt")
    message(FATAL_ERROR "status ${status}, files ${files}, said:\n${said}")
  endif()
  check()  # of the header's new `Verified:` line too
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "what was recorded is not right:\n${said}")
  endif()
  file(READ "${files}" text)
  foreach(line IN ITEMS "run-command: ./first" "mig: n/a" "sms: 4"
      "git-commit: abcdef0123abcdef0123abcdef0123abcdef0123"
      "host-compiler: gcc 12.2.0" "power-limit: 700.00 W"
      "clocks: SM 345 MHz now, 1980 MHz at most; memory 3201 MHz now, 3201 MHz at most")
    string(FIND "${text}" "\n# ${line}\n" at)
    if(at EQUAL -1)
      message(FATAL_ERROR "no line '# ${line}' in:\n${text}")
    endif()
  endforeach()
  if(text MATCHES "${WORK}" OR NOT text MATCHES "passed\\.\n$")
    message(FATAL_ERROR "a path of this machine, or no stderr, in:\n${text}")
  endif()
elseif(CASE STREQUAL "fails")
  set(ENV{FAKE_EXIT} 1)
  record()
  refused("exit status 1; a failed run is not evidence")
elseif(CASE STREQUAL "cannot-run")
  set(ENV{FAKE_EXIT} 77)
  record()
  refused("this machine could run no lesson")
elseif(CASE STREQUAL "other-gpu")
  file(READ "${smi}" text)
  string(REPLACE "echo \"Test GPU\"" "echo \"Other GPU\"" text "${text}")
  set(smi "${WORK}/nvidia-smi")
  file(WRITE "${smi}" "${text}")
  file(CHMOD "${smi}" PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE)
  record()
  refused("nvidia-smi describes 'Other GPU'")
elseif(CASE STREQUAL "no-git")
  set(commit "")
  unset(ENV{GIT_COMMIT})
  record()
  refused("pass -DGIT_COMMIT=")
elseif(CASE STREQUAL "no-nvidia-smi")
  set(smi "${WORK}/no-such-program")
  record()
  refused("evidence is recorded on a machine with an NVIDIA GPU")
elseif(CASE STREQUAL "cubin")
  # The machine code is compared where the compiler is the recorded one.
  set(cubin "${WORK}/cubin/first.sm_75.cubin")
  set(compiler "-DCUBIN_DIR=${WORK}/cubin" "-DNVCC=${here}/fake/nvcc")
  file(MAKE_DIRECTORY "${WORK}/cubin")
  check(${compiler})
  if(status EQUAL 0 OR NOT said MATCHES "build the target `cubins`")
    message(FATAL_ERROR "a missing cubin passed:\n${said}")
  endif()
  execute_process(
    COMMAND "${here}/fake/nvcc" -cubin -o "${cubin}" first.cu
    WORKING_DIRECTORY "${tree}/day01-first" COMMAND_ERROR_IS_FATAL ANY)
  check(${compiler})
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "the same cubin failed:\n${said}")
  endif()
  file(APPEND "${cubin}" "x")
  check(${compiler})
  if(status EQUAL 0 OR NOT said MATCHES "other machine code")
    message(FATAL_ERROR "another cubin passed:\n${said}")
  endif()
  file(READ "${old}" text)
  string(REPLACE "13.0.88" "13.0.99" text "${text}")
  file(WRITE "${old}" "${text}")
  check(${compiler})
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "another compiler was held to it:\n${said}")
  endif()
elseif(CASE STREQUAL "commit")
  # A clean commit that is at hand holds the source that ran.
  find_program(GIT git REQUIRED)
  set(git "${GIT}" -C "${tree}" -c user.name=Test -c user.email=test@localhost
    -c core.autocrlf=false -c commit.gpgsign=false)
  set(source "${tree}/day01-first/first.cu")
  file(READ "${old}" text)
  execute_process(COMMAND ${git} init -q COMMAND_ERROR_IS_FATAL ANY)
  foreach(state IN ITEMS same other)
    if(state STREQUAL "other")
      file(COPY_FILE "${source}" "${WORK}/first.cu")
      file(APPEND "${source}" "// another source\n")
    endif()
    execute_process(COMMAND ${git} add day01-first COMMAND_ERROR_IS_FATAL ANY)
    execute_process(COMMAND ${git} commit -q -m ${state}
      COMMAND_ERROR_IS_FATAL ANY)
    execute_process(COMMAND ${git} rev-parse HEAD OUTPUT_VARIABLE head
      OUTPUT_STRIP_TRAILING_WHITESPACE)
    string(REGEX REPLACE "git-commit: [0-9a-f]+" "git-commit: ${head}" text
      "${text}")
    file(WRITE "${old}" "${text}")
    if(state STREQUAL "other")
      file(COPY_FILE "${WORK}/first.cu" "${source}")
    endif()
    check()
    if(state STREQUAL "same" AND NOT status EQUAL 0)
      message(FATAL_ERROR "the commit's own source failed:\n${said}")
    elseif(state STREQUAL "other" AND (status EQUAL 0 OR
        NOT said MATCHES "is not the source that ran"))
      message(FATAL_ERROR "another commit's source passed:\n${said}")
    endif()
  endforeach()
else()
  message(FATAL_ERROR "no case '${CASE}'")
endif()
