# cmake -DSOURCE=LESSON.cu -DNVCC=NVCC -DWORK=DIR -P alone.cmake
# In an empty folder that holds only the lesson file, the Build line of its
# header makes the program and prints nothing at all. The page beside the
# lesson gives the same line.
cmake_minimum_required(VERSION 3.25)

cmake_path(GET SOURCE FILENAME file)
cmake_path(GET SOURCE STEM name)
cmake_path(GET SOURCE PARENT_PATH folder)

file(READ "${SOURCE}" text)
if(NOT text MATCHES "\n// Build:( |\n//   )(nvcc [^\n]+)\n")
  message(FATAL_ERROR
    "${SOURCE}: the header has no `// Build: nvcc ...` on one line, or with "
    "the command alone on the next")
endif()
set(line "${CMAKE_MATCH_2}")
if(NOT line MATCHES
    "^nvcc -std=c\\+\\+17 -O3 -arch=sm_[0-9]+ -o ${name} ${name}\\.cu$")
  message(FATAL_ERROR "${SOURCE}: unexpected Build line: ${line}")
endif()
set(page "${folder}/README.md")
file(READ "${page}" text)
string(FIND "${text}" "${line}" at)
if(at EQUAL -1)
  message(FATAL_ERROR "${page} does not give the Build line: ${line}")
endif()

file(REMOVE_RECURSE "${WORK}")
file(MAKE_DIRECTORY "${WORK}")
file(COPY "${SOURCE}" DESTINATION "${WORK}")
string(REPLACE " " ";" command "${line}")
list(POP_FRONT command)
execute_process(
  COMMAND "${NVCC}" ${command}
  WORKING_DIRECTORY "${WORK}"
  RESULT_VARIABLE status
  OUTPUT_VARIABLE output
  ERROR_VARIABLE output)
if(NOT status EQUAL 0 OR NOT output STREQUAL "")
  message(FATAL_ERROR "${line}\nexit status ${status}, printed:\n${output}")
endif()
if(NOT EXISTS "${WORK}/${name}")
  message(FATAL_ERROR "${line}\nmade no program ${name}")
endif()
