# programs.cmake: compiles and runs many programs at once, for the scripts
# that record sanitizers, profiles, planted faults and hostile surroundings.

# add_program(work name command...): a program to compile in folder `work`.
# What the command prints goes to work/name.log, its status to
# work/name.status; it may fail.
function(add_program work name)
  add_command("${work}" "${name}" compiled "" ${ARGN})
endfunction()

# add_run(work name seconds command...): the same for a program to run, for so
# many seconds at most.
function(add_run work name seconds)
  add_command("${work}" "${name}" ran "TIMEOUT ${seconds}" ${ARGN})
endfunction()

function(add_command work name done limit)
  set(words "")
  foreach(word IN LISTS ARGN)
    string(APPEND words " [==[${word}]==]")
  endforeach()
  file(WRITE "${work}/${name}.cmake" "
execute_process(COMMAND${words}
  RESULT_VARIABLE status ${limit}
  OUTPUT_FILE [==[${work}/${name}.log]==]
  ERROR_FILE [==[${work}/${name}.log]==])
file(WRITE [==[${work}/${name}.status]==] \"\${status}\")
file(GLOB all [==[${work}/*.cmake]==])
file(GLOB done [==[${work}/*.status]==])
list(LENGTH all all)
list(LENGTH done done)
math(EXPR left \"\${all} - \${done}\")
message(\"${done} ${name}, \${left} left\")
")
endfunction()

# build_programs(work [jobs]): compiles or runs them, so many at a time, or as
# many as the machine has cores. The status of each is read with
# program_status.
function(build_programs work)
  cmake_host_system_information(RESULT jobs QUERY NUMBER_OF_LOGICAL_CORES)
  if(ARGC GREATER 1)
    set(jobs ${ARGV1})
  endif()
  file(GLOB scripts "${work}/*.cmake")
  set(text "cmake_minimum_required(VERSION 3.25)\nproject(programs NONE)\n")
  foreach(script IN LISTS scripts)
    cmake_path(GET script STEM LAST_ONLY name)
    string(APPEND text "add_custom_target([==[${name}]==] ALL
  COMMAND \"\${CMAKE_COMMAND}\" -P [==[${script}]==] VERBATIM)\n")
  endforeach()
  file(WRITE "${work}/project/CMakeLists.txt" "${text}")
  execute_process(
    COMMAND ${CMAKE_COMMAND} -S "${work}/project" -B "${work}/project/build"
    OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
  execute_process(
    COMMAND ${CMAKE_COMMAND} --build "${work}/project/build" -j ${jobs}
    OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
endfunction()

# program_status(work name status log): how the compilation ended.
function(program_status work name status_name log_name)
  file(READ "${work}/${name}.status" status)
  file(READ "${work}/${name}.log" log)
  set(${status_name} "${status}" PARENT_SCOPE)
  set(${log_name} "${log}" PARENT_SCOPE)
endfunction()

# build_lessons(work lessons flag...): compiles each lesson of CMakeLists.txt,
# alone in a folder of its own as a student has it: work/NAME/NAME and
# work/NAME/NAME.cubin. `lessons` becomes a list as of lessons_listed, each
# with the architecture that it was compiled for. The variables ROOT and NVCC
# must be set; ONLY chooses a folder, ARCH a newer architecture than the
# lesson's own.
function(build_lessons work lessons_name)
  lessons_listed("${ROOT}" listed)
  set(lessons "")
  foreach(lesson IN LISTS listed)
    lesson_parts("${lesson}")
    if(ONLY AND NOT folder STREQUAL ONLY)
      continue()
    endif()
    if(ARCH AND ARCH GREATER arch)
      set(arch "${ARCH}")
    endif()
    list(APPEND lessons "${source}|${arch}")
    file(COPY "${ROOT}/${source}" DESTINATION "${work}/${name}")
    set(compile "${NVCC}" -std=c++17 -O3 -arch=sm_${arch} ${ARGN})
    add_program("${work}" "${name}" ${compile}
      -o "${work}/${name}/${name}" "${work}/${name}/${name}.cu")
    add_program("${work}" "${name}-cubin" ${compile} -cubin
      -o "${work}/${name}/${name}.cubin" "${work}/${name}/${name}.cu")
  endforeach()
  build_programs("${work}")
  foreach(lesson IN LISTS lessons)
    lesson_parts("${lesson}")
    foreach(program "${name}" "${name}-cubin")
      program_status("${work}" "${program}" status log)
      if(NOT status EQUAL 0)
        message(FATAL_ERROR "${lesson} does not compile:\n${log}")
      endif()
    endforeach()
  endforeach()
  set(${lessons_name} "${lessons}" PARENT_SCOPE)
endfunction()
