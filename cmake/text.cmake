# text.cmake: what the scripts for snippets, pages, evidence and charts share.
#
# Source text is never a CMake list (`;` splits it, an unbalanced `[` swallows
# the rest): it is walked a line at a time and handed to functions by the name
# of its variable.

# default(NAME value): an argument of the script where none was given.
function(default name value)
  if(NOT DEFINED ${name})
    set(${name} "${value}" PARENT_SCOPE)
  endif()
endfunction()

# take_line(text line): moves the first line of variable `text` to variable
# `line`, without its newline.
function(take_line text_name line_name)
  string(FIND "${${text_name}}" "\n" end)
  if(end EQUAL -1)
    set(${line_name} "${${text_name}}" PARENT_SCOPE)
    set(${text_name} "" PARENT_SCOPE)
    return()
  endif()
  string(SUBSTRING "${${text_name}}" 0 ${end} taken)
  math(EXPR end "${end} + 1")
  string(SUBSTRING "${${text_name}}" ${end} -1 left)
  set(${line_name} "${taken}" PARENT_SCOPE)
  set(${text_name} "${left}" PARENT_SCOPE)
endfunction()

# list_safe(text): makes variable `text` fit for a CMake list: without `;`, `[`
# and `]`, each replaced by one other character.
function(list_safe text_name)
  set(text "${${text_name}}")
  string(REPLACE ";" "," text "${text}")
  string(REPLACE "[" "(" text "${text}")
  string(REPLACE "]" ")" text "${text}")
  set(${text_name} "${text}" PARENT_SCOPE)
endfunction()

# count_lines(text count): the number of newlines in variable `text`.
function(count_lines text_name count_name)
  string(REGEX REPLACE "[^\n]+" "" newlines "${${text_name}}")
  string(LENGTH "${newlines}" count)
  set(${count_name} ${count} PARENT_SCOPE)
endfunction()

# columns(line width): how many characters variable `line` holds; UTF-8.
function(columns line_name width_name)
  string(LENGTH "${${line_name}}" width)
  string(HEX "${${line_name}}" hex)
  string(REGEX REPLACE "(..)" "\\1 " hex "${hex}")
  string(REGEX MATCHALL "[89ab][0-9a-f] " followers "${hex}")
  list(LENGTH followers followers)
  math(EXPR width "${width} - ${followers}")
  set(${width_name} ${width} PARENT_SCOPE)
endfunction()

# The faults so far: none, or those of before this file was read again.
set_property(GLOBAL APPEND_STRING PROPERTY page_faults "")

# Collects one fault, "file:line: what is wrong and the mend"; of several
# pieces, like message().
function(fault)
  math(EXPR last "${ARGC} - 1")
  foreach(i RANGE ${last})
    set_property(GLOBAL APPEND_STRING PROPERTY page_faults "${ARGV${i}}")
  endforeach()
  set_property(GLOBAL APPEND_STRING PROPERTY page_faults "\n")
endfunction()

# has_faults(result): whether fault() was ever called.
function(has_faults result_name)
  get_property(faults GLOBAL PROPERTY page_faults)
  if("${faults}" STREQUAL "")
    set(${result_name} FALSE PARENT_SCOPE)
  else()
    set(${result_name} TRUE PARENT_SCOPE)
  endif()
endfunction()

# Prints the faults and ends the script with an error, if there are any.
function(stop_on_faults summary)
  get_property(faults GLOBAL PROPERTY page_faults)
  if(NOT "${faults}" STREQUAL "")
    message(NOTICE "${faults}")
    message(FATAL_ERROR "${summary}")
  endif()
endfunction()

# find_byte(hex byte line): the line of the first `byte`, two hexadecimal
# digits, in variable `hex`, a file's bytes each followed by a space; or 0.
function(find_byte hex_name byte line_name)
  string(FIND "${${hex_name}}" "${byte} " at)
  if(at EQUAL -1)
    set(${line_name} 0 PARENT_SCOPE)
    return()
  endif()
  string(SUBSTRING "${${hex_name}}" 0 ${at} before)
  string(REGEX MATCHALL "0a " newlines "${before}")
  list(LENGTH newlines line)
  math(EXPR line "${line} + 1")
  set(${line_name} ${line} PARENT_SCOPE)
endfunction()

# read_text(path shown text ok): reads a text file. file(READ) drops CR and
# stops at NUL, so the bytes are looked at first: CR, NUL and a byte-order
# mark are faults. `shown` is the name that faults give to the file.
function(read_text path shown text_name ok_name)
  set(${ok_name} FALSE PARENT_SCOPE)
  if(NOT EXISTS "${path}" OR IS_DIRECTORY "${path}")
    fault("${shown}:1: no such file; correct the name")
    return()
  endif()
  file(READ "${path}" hex HEX)
  string(REGEX REPLACE "(..)" "\\1 " hex "${hex}")
  set(ok TRUE)
  if(hex MATCHES "^ef bb bf ")
    fault("${shown}:1: starts with a byte-order mark; save as UTF-8 without it")
    set(ok FALSE)
  endif()
  find_byte(hex 0d line)
  if(line)
    fault("${shown}:${line}: carriage return; save with LF line ends")
    set(ok FALSE)
  endif()
  find_byte(hex 00 line)
  if(line)
    fault("${shown}:${line}: NUL byte; save as UTF-8 text")
    set(ok FALSE)
  endif()
  if(ok)
    file(READ "${path}" text)
    set(${text_name} "${text}" PARENT_SCOPE)
    set(${ok_name} TRUE PARENT_SCOPE)
  endif()
endfunction()

# write_text(path text): writes variable `text`, LF line ends on every
# platform, with exactly one newline at the end.
function(write_text path text_name)
  string(REGEX REPLACE "\n+$" "" text "${${text_name}}")
  file(CONFIGURE OUTPUT "${path}" CONTENT "@text@" @ONLY NEWLINE_STYLE LF)
endfunction()

# show_path(path root shown): the path relative to root where it is inside.
function(show_path path root shown_name)
  cmake_path(IS_PREFIX root "${path}" NORMALIZE inside)
  if(inside)
    cmake_path(RELATIVE_PATH path BASE_DIRECTORY "${root}")
  endif()
  set(${shown_name} "${path}" PARENT_SCOPE)
endfunction()

# in_fence(line fence result): whether Markdown line `line` (a variable's
# name) belongs to a fenced code block. Variable `fence`, "" at the start,
# holds the marks that opened the block.
function(in_fence line_name fence_name result_name)
  set(fence "${${fence_name}}")
  set(line "${${line_name}}")
  set(inside TRUE)
  if(NOT fence STREQUAL "")
    if(line MATCHES "^ *${fence}[`~]*[ \t]*$")
      set(fence "")
    endif()
  elseif(line MATCHES "^ *(```+|~~~+)")
    set(fence "${CMAKE_MATCH_1}")
  else()
    set(inside FALSE)
  endif()
  set(${fence_name} "${fence}" PARENT_SCOPE)
  set(${result_name} ${inside} PARENT_SCOPE)
endfunction()

# anchors(path result): the anchors of a Markdown file's headings, as GitHub
# makes them.
function(anchors path result_name)
  file(READ "${path}" text)
  set(found "")
  set(fence "")
  while(NOT text STREQUAL "")
    take_line(text line)
    in_fence(line fence code)
    if(code)
      continue()
    elseif(line MATCHES "^#+ +(.*)$")
      string(TOLOWER "${CMAKE_MATCH_1}" slug)
      string(REGEX REPLACE "\\]\\([^)]*\\)" "" slug "${slug}")
      string(REGEX REPLACE "[^a-z0-9 _-]" "" slug "${slug}")
      string(STRIP "${slug}" slug)
      string(REPLACE " " "-" slug "${slug}")
      list(APPEND found "${slug}")
    elseif(line MATCHES "<a (id|name)=\"([^\"]+)\"")
      list(APPEND found "${CMAKE_MATCH_2}")
    endif()
  endwhile()
  set(${result_name} "${found}" PARENT_SCOPE)
endfunction()
