# cmake -DROOT=DIR "-DSOURCES=a.cu;b.cu" -P listed.cmake
# Every lesson folder is listed in CMakeLists.txt, holds one lesson file and
# its page, and has its claims in research/.
cmake_minimum_required(VERSION 3.25)

file(GLOB found RELATIVE "${ROOT}" "${ROOT}/day*/*.cu")
foreach(source IN LISTS found)
  if(NOT source IN_LIST SOURCES)
    message(SEND_ERROR
      "${source} is not listed in CMakeLists.txt: add a line "
      "`lesson(${source} ARCH)`")
  endif()
endforeach()
set(folders "")
foreach(source IN LISTS SOURCES)
  cmake_path(GET source PARENT_PATH folder)
  if(folder IN_LIST folders)
    message(SEND_ERROR "${folder} holds more than one lesson")
  endif()
  list(APPEND folders "${folder}")
  foreach(file IN ITEMS "${source}" "${folder}/README.md"
      "research/${folder}.md")
    if(NOT EXISTS "${ROOT}/${file}")
      message(SEND_ERROR "${file} is missing")
    endif()
  endforeach()
endforeach()
