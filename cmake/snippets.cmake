# Exports the marked regions of the lessons, for any page generator.
#
# Usage: cmake -DOUT=DIR ["-DSOURCES=a.cu;b.cu"] -P cmake/snippets.cmake
#
# A region, between lines `// snippet: NAME` and `// end snippet`, becomes
# DIR/<lesson folder>/NAME.cu: dedented, LF, no blank lines at its ends, one
# final newline. DIR/index.tsv lists: lesson, name, source (relative to the
# root), first and last line there, sha256 of the exported file, commit of the
# source (n/a: none, or the tree differs from it), needs (the regions of the
# same source that define what it uses; -: none). Without SOURCES all lessons
# are exported. What an earlier export left of a region or source that is gone
# is removed. Where anything is wrong, all is reported and nothing is written.
cmake_minimum_required(VERSION 3.25)

foreach(code RANGE 1 255)
  string(ASCII ${code} b${code})
endforeach()
set(control "[${b1}-${b8}${b11}-${b31}${b127}]")
set(next "[${b128}-${b191}]")  # every byte of a character but the first
string(CONCAT utf8 "[${b194}-${b223}]${next}|[${b224}-${b239}]${next}${next}"
  "|[${b240}-${b244}]${next}${next}${next}")
# Overlong forms, surrogates, beyond U+10FFFF; C1 controls, marks of direction,
# line separators, byte-order mark.
string(CONCAT unfit "${control}|${b224}[${b128}-${b159}]|${b237}[${b160}-${b191}]"
  "|${b240}[${b128}-${b143}]|${b244}[${b144}-${b191}]|${b194}[${b128}-${b159}]"
  "|${b216}${b156}|${b226}${b128}[${b142}${b143}${b168}-${b174}]"
  "|${b226}${b129}[${b166}-${b169}]|${b239}${b187}${b191}")
string(REPEAT "[^\n]" 80 too_wide)

# newlines(text first result): `first` + how many newlines variable `text` has.
function(newlines name first result)
  string(REGEX REPLACE "[^\n]+" "" only "${${name}}")
  string(LENGTH "${only}" count)
  math(EXPR count "${first} + ${count}")
  set(${result} ${count} PARENT_SCOPE)
endfunction()

# look(text pattern first result): the line of the first match in variable
# `text`, which starts on line `first`; 0 where there is none.
function(look name pattern first result)
  set(line 0)
  if("${${name}}" MATCHES "${pattern}")
    string(FIND "${${name}}" "${CMAKE_MATCH_0}" at)
    string(SUBSTRING "${${name}}" 0 ${at} before)
    newlines(before ${first} line)
  endif()
  set(${result} ${line} PARENT_SCOPE)
endfunction()

# A CMake list splits at `;` and is confused by brackets and backslashes, so
# text is held with control characters, b1 to b4, in their place.
function(decode name)
  string(REPLACE "${b1}" ";" text "${${name}}")
  string(REPLACE "${b2}" "[" text "${text}")
  string(REPLACE "${b3}" "]" text "${text}")
  string(REPLACE "${b4}" "\\" text "${text}")
  set(${name} "${text}" PARENT_SCOPE)
endfunction()

# state(file result): its hash, or what else is there.
function(state file result)
  set(hash "none")
  if(IS_DIRECTORY "${file}" OR IS_SYMLINK "${file}")
    set(hash "foreign")
  elseif(EXISTS "${file}")
    file(SHA256 "${file}" hash)
  endif()
  set(${result} ${hash} PARENT_SCOPE)
endfunction()

set(faults "")
function(fault place text)
  set(faults "${faults}${place}: ${text}\n" PARENT_SCOPE)
endfunction()

# --- Arguments ---------------------------------------------------------------

if("${OUT}" STREQUAL "")
  message(FATAL_ERROR "OUT is missing: cmake -DOUT=DIR -P cmake/snippets.cmake (-D stands before -P)")
endif()
set(here "${CMAKE_CURRENT_SOURCE_DIR}")  # of a script: the working folder
cmake_path(ABSOLUTE_PATH OUT BASE_DIRECTORY "${here}" NORMALIZE)
string(REGEX REPLACE "(.)/+$" "\\1" OUT "${OUT}")
cmake_path(GET CMAKE_CURRENT_LIST_DIR PARENT_PATH root)
if("${OUT}${root}${here}" MATCHES ";" OR
    "${OUT}${root}${here}${SOURCES}" MATCHES "[][\\\t\n]|${unfit}")
  message(FATAL_ERROR "a path has one of ; [ ] \\ or a control character in it, which CMake cannot handle; rename it: ${OUT} ${root} ${SOURCES}")
elseif(NOT DEFINED SOURCES)
  file(GLOB SOURCES "${root}/day*/*.cu")
endif()
list(REMOVE_ITEM SOURCES "")
if("${SOURCES}" STREQUAL "")
  message(FATAL_ERROR "no source: name some in SOURCES, or leave it out")
endif()

# --- Scan: each region has a number, and a key FOLDER/NAME --------------------

set(count 0)     # regions so far
set(keys "")
set(scanned "")  # sources, as the index names them
set(folders "")
file(REAL_PATH "${root}" reals)  # what OUT must not contain
foreach(path IN LISTS SOURCES)
  cmake_path(ABSOLUTE_PATH path BASE_DIRECTORY "${here}" NORMALIZE)
  cmake_path(RELATIVE_PATH path BASE_DIRECTORY "${root}" OUTPUT_VARIABLE shown)
  if(shown IN_LIST scanned)
    continue()
  elseif(NOT EXISTS "${path}" OR IS_DIRECTORY "${path}" OR path MATCHES "[][\\\t\n]|${unfit}")
    fault("${shown}:1" "no such file, or a folder, or [ ] or a control character in the name; name .cu files, with a semicolon between two, not a comma")
    continue()
  endif()
  list(APPEND scanned "${shown}")
  list(LENGTH scanned source)
  file(REAL_PATH "${path}" real)
  list(APPEND reals "${real}")
  cmake_path(GET path PARENT_PATH parent)
  cmake_path(GET parent FILENAME folder)
  list(APPEND folders "${folder}")

  file(READ "${path}" text)
  file(SIZE "${path}" size)
  string(REGEX MATCH "[^\r]+" rest "${text}\n")  # stops at NUL, too
  string(LENGTH "${rest}" length)
  math(EXPR length "${length} - 1")
  set(hex "")
  if(NOT length EQUAL size)
    file(READ "${path}" hex HEX)
    string(REGEX REPLACE "(..)" "\\1 " hex "${hex}")
    string(REPLACE "0a " "\n" hex "${hex}")
  endif()
  string(REGEX REPLACE "${utf8}" "" rest "${text}")
  look(hex "0[0d] " 1 dropped)
  look(rest "[${b128}-${b255}]" 1 broken)
  look(text "${unfit}" 1 unseen)
  if(dropped)
    fault("${shown}:${dropped}" "carriage return or NUL byte; save as UTF-8 text with LF line ends")
  elseif(broken)
    fault("${shown}:${broken}" "bytes that are not UTF-8; save as UTF-8")
  elseif(unseen)
    fault("${shown}:${unseen}" "byte-order mark, control or bidirectional character, or not UTF-8; remove it")
  endif()
  if(dropped OR broken OR unseen)
    continue()
  endif()

  set(commit "n/a")
  execute_process(COMMAND git ls-files --error-unmatch -- "${path}"
    COMMAND git describe --always --dirty --abbrev=40 --exclude=*
    WORKING_DIRECTORY "${parent}" RESULTS_VARIABLE ended ERROR_QUIET
    OUTPUT_VARIABLE head OUTPUT_STRIP_TRAILING_WHITESPACE)
  if("${ended}|${head}" MATCHES "^0;0\\|([0-9a-f]+)$")
    set(commit "${CMAKE_MATCH_1}")
  endif()

  # Lines with the word become elements of a list; between them are those
  # without, each after a newline.
  string(REPLACE ";" "${b1}" text "\n${text}")
  string(REPLACE "[" "${b2}" text "${text}")
  string(REPLACE "]" "${b3}" text "${text}")
  string(REPLACE "\\" "${b4}" text "${text}")
  string(REGEX REPLACE "\n([^\n]*[Ss][Nn][Ii][Pp][Pp][Ee][Tt][^\n]*)" ";\\1;" text "${text}")
  set(opened 0)  # the line of the open region's marker
  set(at 0)      # the last line read
  set(own "")    # the numbers of this source's regions
  set(marked FALSE)
  set(word TRUE)
  foreach(part IN LISTS text)
    string(TOLOWER "${part}" lower)
    if(word)  # in the part before this one
      set(word FALSE)
      string(APPEND body "${part}")
      newlines(part ${at} at)
      continue()
    endif()
    set(word TRUE)
    math(EXPR at "${at} + 1")
    if(part MATCHES "^ *// snippet: ([^ \t]+)$")
      if(opened)
        fault("${shown}:${at}" "snippet '${CMAKE_MATCH_1}' starts inside '${name}' (line ${opened}); regions never nest: end that one first")
      endif()
      string(REGEX REPLACE "^ *// snippet: " "" name "${part}")
      set(marked TRUE)
      set(opened ${at})
      set(body "")
    elseif(part MATCHES "^ *// end snippet$" AND NOT opened)
      fault("${shown}:${at}" "'// end snippet' ends nothing; remove it, or start a region above it")
    elseif(part MATCHES "^ *// end snippet$")
      string(REGEX REPLACE "\n +\n" "\n\n" body "${body}\n")  # twice, since
      string(REGEX REPLACE "\n +\n" "\n\n" body "${body}")  # none overlap
      string(REGEX REPLACE "\n+$" "" body "${body}")
      newlines(body ${opened} last)
      string(REGEX REPLACE "^\n+" "" body "${body}")
      newlines(body 0 first)
      math(EXPR first "${last} - ${first}")
      string(REGEX MATCHALL "\n *[^\n ]" indents "\n${body}.")
      list(TRANSFORM indents REPLACE "[^\n ]$" "")
      list(SORT indents)  # the shortest first
      string(REGEX MATCH "^\n *" indent "${indents}")
      string(REPLACE "${indent}" "\n" body "\n${body}")
      string(REGEX REPLACE "${next}+" "" narrow "${body}")
      look(narrow "\n${too_wide}" ${first} wide)
      string(SUBSTRING "${body}" 1 -1 body)
      look(body "\t" ${first} tab)
      string(LENGTH "${name}" length)
      set(where "${shown}:${opened}")
      set(opened 0)
      if(body STREQUAL "")
        fault("${where}" "snippet '${name}' is empty; put code into it or remove it")
      elseif(tab)
        fault("${shown}:${tab}" "tab inside snippet '${name}'; indent and align with spaces")
      elseif(wide)
        fault("${shown}:${wide}" "80 columns wide or more after dedent; break the line")
      elseif(NOT name MATCHES "^[a-z][a-z0-9-]*$" OR length GREATER 60)
        fault("${where}" "bad snippet name '${name}'; use small letters, digits and '-', a letter first, at most 60")
      else()
        math(EXPR count "${count} + 1")
        list(APPEND own ${count})
        list(APPEND keys "${folder}/${name}\t${where}\t${count}")
        set(name_${count} "${name}")
        set(text_${count} "${body}")
        set(row_${count} "${folder}\t${name}\t${shown}\t${first}\t${last}")
        # What it defines: the last word before ( = { or ;
        string(REGEX REPLACE "//[^\n]*|__launch_bounds__ *\\([^)]*\\)" "" code "\n${body}")
        string(REGEX MATCHALL "\n(struct|using|#define) +[A-Za-z0-9_]+|\n(template|inline|constexpr|__global__|__device__)[^(={${b1}]*" found "${code}")
        foreach(one IN LISTS found)
          string(REGEX MATCH "([A-Za-z0-9_]+)[^A-Za-z0-9_]*$" _ "${one}")
          set(in_${source}_${CMAKE_MATCH_1} "${name}")
        endforeach()
      endif()
    elseif(lower MATCHES "(//[/! \t]*|/\\*+[ \t]*)((begin |start )?[ \t]*snippets?[ \t]*([:=].*|[a-z0-9_-]*[ \t]*(\\*/.*)?)$|end[ \t_:-]*((of|the)[ \t]+)?snippet|snippets?[ \t_-]+end([^a-z]|$))")
      set(marked TRUE)
      fault("${shown}:${at}" "almost a snippet marker; write exactly '// snippet: NAME' or '// end snippet', alone on its line")
    else()
      string(APPEND body "\n${part}")
    endif()
  endforeach()
  if(opened)
    fault("${shown}:${opened}" "snippet '${name}' never ends; add '// end snippet' below its last line")
  elseif(NOT marked AND NOT shown MATCHES "^day[^/]*/[^/]*$")
    fault("${shown}:1" "no snippet in this file; mark a region, or leave the file out")
  endif()
  foreach(id IN LISTS own)
    string(REGEX REPLACE "//[^\n]*" "" code "${text_${id}}")
    string(REGEX MATCHALL "[A-Za-z_][A-Za-z0-9_]*" words "${code}")
    list(REMOVE_DUPLICATES words)
    set(needs "")
    foreach(one IN LISTS words)
      list(APPEND needs ${in_${source}_${one}})
    endforeach()
    list(REMOVE_DUPLICATES needs)
    list(REMOVE_ITEM needs ${name_${id}})
    list(JOIN needs " " needs)
    string(REPLACE "\t;" "\t-;" needs "${commit}\t${needs};")
    string(REPLACE ";" "\n" more_${id} "${needs}")
  endforeach()
endforeach()

# --- Check what is in OUT, then write ----------------------------------------

file(REAL_PATH "${OUT}" out)
foreach(real IN LISTS reals)
  cmake_path(IS_PREFIX out "${real}" NORMALIZE inside)
  if(inside)
    fault("OUT=${OUT}" "has ${real} in it, which an export would overwrite or bury; choose another OUT")
    break()
  endif()
endforeach()

set(kept "")
set(ours "")  # files that an earlier export wrote and nobody changed
if(EXISTS "${OUT}/index.tsv")
  file(READ "${OUT}/index.tsv" old)
  if(NOT old MATCHES "^lesson\tname\tsource\t")
    fault("${OUT}/index.tsv" "is not from an export; choose another OUT")
  endif()
  string(REGEX REPLACE "[][;\\]" "?" old "${old}")
  string(REPLACE "\n" ";" old "${old}")
  foreach(row IN LISTS old)
    if(NOT row MATCHES "^([^\t/]+)\t([a-z][a-z0-9-]*)\t([^\t]+)\t[0-9]+\t[0-9]+\t([0-9a-f]+)")
      continue()
    endif()
    set(file "${OUT}/${CMAKE_MATCH_1}/${CMAKE_MATCH_2}.cu")
    state("${file}" hash)
    if(NOT CMAKE_MATCH_3 IN_LIST scanned AND EXISTS "${root}/${CMAKE_MATCH_3}")
      string(APPEND kept "${row}\n")
      list(APPEND keys "${CMAKE_MATCH_1}/${CMAKE_MATCH_2}\t${CMAKE_MATCH_3}\t0")
    elseif(hash STREQUAL CMAKE_MATCH_4)
      list(APPEND ours "${file}")
    endif()
  endforeach()
endif()

list(SORT keys)
set(last "/")
set(index "lesson\tname\tsource\tfirst line\tlast line\tsha256\tcommit\tneeds\n${kept}")
foreach(entry IN LISTS keys)
  string(REGEX MATCH "^([^\t]+)\t([^\t]+)\t([0-9]+)$" _ "${entry}")
  set(key "${CMAKE_MATCH_1}")
  set(where "${CMAKE_MATCH_2}")
  set(id ${CMAKE_MATCH_3})
  string(FIND "${key}" "${last}" at)
  if(at EQUAL 0)  # the start of a name comes right before it
    fault("${where}" "of the snippet names ${key} and ${last} (${there}) one is the other or its start, so a page tool that matches substrings takes the wrong one; rename one")
  endif()
  set(last "${key}")
  set(there "${where}")
  if(id)
    set(file "${OUT}/${key}.cu")
    decode(text_${id})
    string(SHA256 hash "${text_${id}}\n")
    state("${file}" now)
    string(APPEND index "${row_${id}}\t${hash}\t${more_${id}}")
    list(APPEND files "${file}")
    list(APPEND ids ${id})
    if(NOT now STREQUAL hash AND NOT now STREQUAL "none" AND NOT file IN_LIST ours)
      fault("${file}" "is not what an export wrote; move it away, or choose another OUT")
    endif()
  endif()
endforeach()

list(REMOVE_DUPLICATES folders)
foreach(folder IN LISTS folders)
  if(IS_SYMLINK "${OUT}/${folder}")
    fault("${OUT}/${folder}" "is a symbolic link; choose another OUT")
  endif()
endforeach()
if(NOT faults STREQUAL "")
  decode(faults)
  message(NOTICE "${faults}")
  message(FATAL_ERROR "snippets: nothing was written; fix what is listed above")
endif()
list(REMOVE_ITEM ours "" ${files})
foreach(folder IN LISTS folders)  # ends here where OUT cannot be written
  file(MAKE_DIRECTORY "${OUT}/${folder}")
  file(TOUCH "${OUT}/${folder}/.new")
  file(REMOVE "${OUT}/${folder}/.new" ${ours})
endforeach()
foreach(file id IN ZIP_LISTS files ids)  # leaves alone what is up to date
  set(text "${text_${id}}")
  file(CONFIGURE OUTPUT "${file}" CONTENT "@text@" @ONLY NEWLINE_STYLE LF)
endforeach()
string(REGEX REPLACE "\n$" "" text "${index}")
file(CONFIGURE OUTPUT "${OUT}/index.tsv" CONTENT "@text@" @ONLY NEWLINE_STYLE LF)
message(STATUS "snippets: ${count} in ${OUT}")
