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
set(next "[${b128}-${b191}]")  # every byte of a character but the first
string(CONCAT utf8 "[${b194}-${b223}]${next}|[${b224}-${b239}]${next}${next}"
  "|[${b240}-${b244}]${next}${next}${next}")
# Controls, overlong forms, surrogates, what is above U+10FFFF, marks of
# direction, line separators, the byte-order mark.
string(CONCAT unfit "[${b1}-${b8}${b11}-${b31}${b127}]|${b194}[${b128}-${b159}]"
  "|${b224}[${b128}-${b159}]|${b237}[${b160}-${b191}]|${b240}[${b128}-${b143}]"
  "|${b244}[${b144}-${b191}]|${b226}${b128}[${b142}${b143}${b168}-${b174}]"
  "|${b216}${b156}|${b226}${b129}[${b166}-${b169}]|${b239}${b187}${b191}")
string(REPEAT "[^\n]" 80 wide)
# What is no code: comments (b5: their end), texts. What defines nothing:
# attributes, instantiations, declarations of types. No group repeats in these,
# since CMake would recurse for each time.
set(noise "//[^\n]*|/\\*[^${b5}]*${b5}|R\"[^\"]*\"|\"[^\"\n]*\"|'[^'\n]?'")
string(CONCAT aside
  "(__[a-z_]+__|alignas) *\\([^()]*(\\([^()]*\\)[^()]*)?\\)"
  "|${b2}${b2}[^${b3}]*${b3}${b3} *|\ntemplate +[^< \n][^${b1}]*"
  "|\n(struct|class|union) +[A-Za-z0-9_]+ *${b1}")
set(angle "[^][<>{}()#${b1}]*")

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

set(faults "")
# --- Arguments ---------------------------------------------------------------

if("${OUT}" STREQUAL "")
  message(FATAL_ERROR "OUT is missing: cmake -DOUT=DIR -P cmake/snippets.cmake (-D stands before -P)")
endif()
cmake_path(ABSOLUTE_PATH OUT NORMALIZE)
cmake_path(GET CMAKE_CURRENT_LIST_DIR PARENT_PATH root)
if(NOT DEFINED SOURCES)
  file(GLOB SOURCES "${root}/day*/*.cu")
  list(FILTER SOURCES EXCLUDE REGEX "/(mine|\\.[^/]*)\\.cu$")  # a student's copy, an editor's
endif()
if("${OUT}${root}" MATCHES ";" OR "${OUT}${root}${SOURCES}" MATCHES "[][<>\\\t\n]|${unfit}")
  message(FATAL_ERROR "a path has one of ; [ ] < > \\ or a control character in it, which CMake cannot handle; rename it: ${OUT} ${root} ${SOURCES}")
elseif("${SOURCES}" STREQUAL "")
  message(FATAL_ERROR "no source: name some in SOURCES, or leave it out")
endif()

# --- Scan: regions are numbered, from 1 --------------------------------------

set(count 0)
set(regions "")  # FOLDER/NAME, place and number of each, with tabs between
set(scanned "")  # sources, as the index names them
file(REAL_PATH "${root}" reals)  # what OUT must not contain
foreach(path IN LISTS SOURCES)
  cmake_path(ABSOLUTE_PATH path NORMALIZE)
  cmake_path(RELATIVE_PATH path BASE_DIRECTORY "${root}" OUTPUT_VARIABLE shown)
  cmake_path(GET path PARENT_PATH parent)
  cmake_path(GET parent FILENAME folder)
  if(shown IN_LIST scanned)
    continue()
  elseif(NOT EXISTS "${path}" OR IS_DIRECTORY "${path}")
    string(APPEND faults "${shown}:1: no such file, or a folder, or not readable; name .cu files, with a semicolon between two, not a comma\n")
    continue()
  elseif(NOT folder MATCHES "^[^.]" OR folder STREQUAL "index.tsv")
    string(APPEND faults "${shown}:1: its folder names the lesson, so it needs a name, which does not begin with a dot; move the file\n")
    continue()
  endif()
  list(APPEND scanned "${shown}")
  list(LENGTH scanned source)
  file(REAL_PATH "${path}" real)
  string(APPEND reals "/;${real}")

  file(READ "${path}" text)
  file(SIZE "${path}" size)
  string(REGEX MATCH "[^\r]+" read "${text}\n")  # ends at NUL, too
  string(LENGTH "${read}" length)
  set(hex "")
  if(length LESS_EQUAL size)
    file(READ "${path}" hex HEX)
    string(REGEX REPLACE "(..)" "\\1 " hex "${hex}")
    string(REPLACE "0a " "\n" hex "${hex}")
  endif()
  string(REGEX REPLACE "${utf8}" "" rest "${text}")
  look(hex "0d " 1 returned)
  look(hex "00 " 1 nul)
  look(rest "[${b128}-${b255}]" 1 broken)
  look(text "${b239}${b187}${b191}" 1 marked)
  look(text "${unfit}" 1 unseen)
  if("${returned}: carriage return|${nul}: NUL byte|${broken}: bytes that are not UTF-8|${marked}: byte-order mark|${unseen}: control, bidirectional or invalid character" MATCHES "[1-9][0-9]*:[^|]+")
    string(APPEND faults "${shown}:${CMAKE_MATCH_0}; save as UTF-8 text with LF line ends, without it\n")
    continue()
  endif()

  set(is "")
  cmake_path(GET path FILENAME leaf)
  execute_process(COMMAND git rev-parse --verify --quiet "HEAD:./${leaf}"
    WORKING_DIRECTORY "${parent}" OUTPUT_VARIABLE was ERROR_QUIET)
  execute_process(COMMAND git hash-object -- "${path}"
    WORKING_DIRECTORY "${parent}" OUTPUT_VARIABLE is ERROR_QUIET)
  execute_process(COMMAND git describe --always --dirty --abbrev=40 --exclude=*
    WORKING_DIRECTORY "${parent}" ERROR_QUIET
    OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(NOT is STREQUAL was OR NOT commit MATCHES "^[0-9a-f]+$")
    set(commit "n/a")
  endif()

  # A CMake list splits at `;` and is confused by brackets and backslashes, so
  # b1 to b4 stand for them. Each line with the word begins an element.
  string(REPLACE ";" "${b1}" text "\n${text}")
  string(REPLACE "[" "${b2}" text "${text}")
  string(REPLACE "]" "${b3}" text "${text}")
  string(REPLACE "\\" "${b4}" text "${text}")
  string(REGEX REPLACE "\n([^\n]*[Ss][Nn][Ii][Pp][Pp][Ee][Tt][^\n]*)" ";\\1" text "${text}")
  set(opened 0)  # the line of the open region's marker
  set(at 0)      # the line of `mark`, which `rest` follows
  set(own "")    # a region of this source
  foreach(part IN LISTS text)
    string(REGEX REPLACE "\n.*" "" mark "${part}")
    string(LENGTH "${mark}" length)
    string(SUBSTRING "${part}" ${length} -1 rest)
    string(TOLOWER "${mark}" lower)
    if(mark MATCHES "^ *// snippet: ([^ \t]+)$")
      string(REGEX REPLACE "[^!-~]" "?" new "${CMAKE_MATCH_1}")
      if(opened)
        string(APPEND faults "${shown}:${at}: snippet '${new}' starts inside '${name}' (line ${opened}); regions never nest: end that one first\n")
      endif()
      set(name "${new}")
      set(opened ${at})
      set(body "")
    elseif(mark MATCHES "^ *// end snippet$" AND NOT opened)
      string(APPEND faults "${shown}:${at}: '// end snippet' ends nothing; remove it, or start a region above it\n")
    elseif(mark MATCHES "^ *// end snippet$")
      set(where "${shown}:${opened}")
      string(REGEX REPLACE "\n +\n" "\n\n" body "${body}\n")  # twice, since
      string(REGEX REPLACE "\n +\n" "\n\n" body "${body}")  # none overlap
      string(REGEX REPLACE "\n+$" "" body "${body}")
      newlines(body ${opened} last)
      string(REGEX REPLACE "^\n+" "\n" body "${body}")
      newlines(body -1 first)
      math(EXPR first "${last} - ${first}")
      set(inner FALSE)
      while(NOT body MATCHES "^$|\n[^ \n]")
        set(inner TRUE)
        string(REPLACE "\n " "\n" body "${body}")
      endwhile()
      string(REGEX REPLACE "${next}+" "" narrow "${body}")
      look(narrow "\n[^\n]*\t" ${first} tab)
      look(narrow "\n${wide}" ${first} line)
      set(opened 0)
      if(body STREQUAL "")
        string(APPEND faults "${where}: snippet '${name}' is empty; put code into it or remove it\n")
      elseif("${tab}: tab; use spaces|${line}: 80 columns or more after dedent; break the line" MATCHES "[1-9][0-9]*:[^|]+")
        string(APPEND faults "${shown}:${CMAKE_MATCH_0}, in snippet '${name}'\n")
      elseif(NOT name MATCHES "^[a-z][a-z0-9-]*$" OR name MATCHES "${wide}")
        string(APPEND faults "${where}: bad snippet name '${name}'; use small letters, digits and '-', a letter first, at most 79\n")
      else()
        math(EXPR count "${count} + 1")
        set(own ${count})
        list(APPEND regions "${folder}/${name}\t${where}\t${count}")
        string(SUBSTRING "${body}" 1 -1 text_${count})
        set(row_${count} "${folder}\t${name}\t${shown}\t${first}\t${last}")
        set(commit_${count} "${commit}")
        set(source_${count} "${source}")
        string(REGEX REPLACE "${b4}." "" code "${body}")  # b4: a backslash
        string(REPLACE "*/" "${b5}" code "${code}")
        string(REGEX REPLACE "${noise}" "" code "${code}")
        string(REGEX REPLACE "(\\.|->|std::)[ \n]*[A-Za-z_][A-Za-z0-9_]*" "" uses_${count} "${code}")
        if(inner)  # part of a function: what it defines is its own
          set(code "")
        endif()
        # What it defines: the last word before ( = { [ or ;
        string(REGEX MATCH "template *< *>|\n(struct|class) +[A-Za-z0-9_]+ *<" special "${code}")
        string(REGEX REPLACE "${aside}" "" code "${code}")
        foreach(_ RANGE 2)
          string(REGEX REPLACE "<${angle}(\\([^()]*\\)${angle})?>" "" code "${code}")
        endforeach()
        string(REGEX REPLACE "\ntemplate[ \n]*" "\n" code "${code}")
        string(REGEX MATCHALL "\n(struct|class|union|enum class|enum|concept| *# *define) +[A-Za-z0-9_]+|\n(using|namespace) +[A-Za-z0-9_]+ *=|\n(inline|static|const|constexpr|typedef|__global__|__host__|__device__|__constant__|__managed__)[ \n][^(={${b1}${b2}]*|\n[A-Za-z_][A-Za-z0-9_:<>*& ]* [*&]*[A-Za-z0-9_]+\\([^${b1}{}]*{" found "${code}")
        # ... and each after a comma of constants or of an enum
        string(REGEX MATCHALL "\nenum( +[A-Za-z0-9_]+)? *{[^}]*|\n(static |inline )*const(expr)? [^(){}${b1}${b2}]*" lists "${code}")
        string(REGEX REPLACE "=[^,;]*" "" lists "${lists}")
        string(REGEX MATCHALL "[,{][ \n]*[A-Za-z_][A-Za-z0-9_]*" lists "${lists}")
        foreach(one IN LISTS found lists)
          string(REGEX MATCH "([A-Za-z_][A-Za-z0-9_]*)([^A-Za-z0-9_(]*|\\(.*)$" _ "${one}")
          list(APPEND in_${source}_${CMAKE_MATCH_1} "${name}")
          if(NOT special)  # a specialisation needs the first
            set(own_${count}_${CMAKE_MATCH_1} TRUE)
          endif()
        endforeach()
      endif()
    elseif(lower MATCHES "(//[/! \t]*|/\\*+[ \t]*)((begin |start )?[ \t]*snippets?[ \t]*([:=].*|[a-z0-9_-]*[ \t]*(\\*/.*)?)$|end[ \t_:-]*((of|the)[ \t]+)?snippet|snippets?[ \t_-]+end([^a-z]|$))")
      string(APPEND faults "${shown}:${at}: almost a snippet marker; write exactly '// snippet: NAME' or '// end snippet', alone on its line\n")
      string(APPEND body "\n${mark}")
    else()
      string(APPEND body "\n${mark}")
    endif()
    string(APPEND body "${rest}")
    math(EXPR at "${at} + 1")
    newlines(rest ${at} at)
  endforeach()
  if(opened)
    string(APPEND faults "${shown}:${opened}: snippet '${name}' never ends; add '// end snippet' below its last line\n")
  elseif("${own}${faults}" STREQUAL "" AND NOT shown MATCHES "^day[^/]*/[^/]*$")
    string(APPEND faults "${shown}:1: no snippet in this file; mark a region, or leave the file out\n")
  endif()
endforeach()

# --- Check what is in OUT, then write ----------------------------------------

set(out "${OUT}")
if(EXISTS "${OUT}")  # CMake 4 warns of what is not there
  file(REAL_PATH "${OUT}" out)
endif()
string(FIND ";${reals}" ";${out}/" at)
if(NOT at EQUAL -1)
  string(APPEND faults "OUT=${OUT}: would overwrite this repository or a source; choose another OUT\n")
endif()
if((EXISTS "${OUT}" OR IS_SYMLINK "${OUT}") AND NOT IS_DIRECTORY "${OUT}")
  string(APPEND faults "OUT=${OUT}: is not a folder; choose another OUT\n")
endif()
string(SHA1 hash "${out} $ENV{USER}")
foreach(temp "$ENV{TMPDIR}" "$ENV{TEMP}" "/tmp")  # one export into OUT at a time
  set(lock "${temp}/snippets-${hash}.lock")
  execute_process(COMMAND "${CMAKE_COMMAND}" -E touch "${lock}"
    RESULT_VARIABLE failed OUTPUT_QUIET ERROR_QUIET)
  if(IS_DIRECTORY "${temp}" AND NOT failed)
    file(LOCK "${lock}" TIMEOUT 60 RESULT_VARIABLE busy)
    if(busy)
      string(APPEND faults "OUT=${OUT}: another export writes there (${busy}); wait for it, then export again\n")
    endif()
    break()
  endif()
endforeach()
set(kept "")  # rows of other sources
set(gone "")
if(EXISTS "${OUT}/index.tsv")
  file(READ "${OUT}/index.tsv" old)
  if(NOT old MATCHES "^lesson\tname\tsource\t")
    string(APPEND faults "${OUT}/index.tsv: is not from an export; choose another OUT\n")
  endif()
  string(REGEX REPLACE "[][;\\]" "?" old "${old}")
  string(REPLACE "\n" ";" old "${old}")
  foreach(row IN LISTS old)
    if(NOT row MATCHES "^([^\t/.][^\t/]*)\t([a-z][a-z0-9-]*)\t([^\t]+)\t[0-9]+\t[0-9]+\t")
      continue()
    elseif(NOT CMAKE_MATCH_3 IN_LIST scanned AND EXISTS "${root}/${CMAKE_MATCH_3}")
      string(APPEND kept "${row}\n")
      list(APPEND regions "${CMAKE_MATCH_1}/${CMAKE_MATCH_2}\t${CMAKE_MATCH_3}, as exported before: export it, too\t0")
    elseif(NOT IS_SYMLINK "${OUT}/${CMAKE_MATCH_1}")
      list(APPEND gone "${OUT}/${CMAKE_MATCH_1}/${CMAKE_MATCH_2}.cu")
    endif()
    set("old ${CMAKE_MATCH_1}/${CMAKE_MATCH_2}" TRUE)
  endforeach()
endif()

list(SORT regions)
set(last "/")
set(files "${OUT}/index.tsv")  # first: what is written is then known
set(ids 0)
set(index "lesson\tname\tsource\tfirst line\tlast line\tsha256\tcommit\tneeds\n${kept}")
foreach(region IN LISTS regions)
  string(REGEX MATCH "^([^\t]+)\t([^\t]+)\t(.+)" _ "${region}")
  string(FIND "${CMAKE_MATCH_1}" "${last}" at)
  if("${CMAKE_MATCH_1}" STREQUAL "${last}")
    string(APPEND faults "${CMAKE_MATCH_2}: the snippet name ${last} is there twice (${where}); rename one\n")
  elseif(at EQUAL 0)  # the start of a name comes right before it
    string(APPEND faults "${CMAKE_MATCH_2}: of the snippet names ${CMAKE_MATCH_1} and ${last} (${where}) one is the start of the other, so a page tool that matches substrings takes the wrong one; rename one\n")
  endif()
  set(last "${CMAKE_MATCH_1}")
  set(where "${CMAKE_MATCH_2}")
  set(id ${CMAKE_MATCH_3})
  if(id)
    set(file "${OUT}/${last}.cu")
    cmake_path(GET file PARENT_PATH parent)
    if(IS_DIRECTORY "${file}" OR IS_SYMLINK "${file}" OR IS_SYMLINK "${parent}" OR
        (EXISTS "${parent}" AND NOT IS_DIRECTORY "${parent}") OR
        (EXISTS "${file}" AND NOT DEFINED "old ${last}"))
      string(APPEND faults "${file}: is not from an export; move it away, or choose another OUT\n")
    endif()
    string(REPLACE "${b1}" ";" text "${text_${id}}")
    string(REPLACE "${b2}" "[" text "${text}")
    string(REPLACE "${b3}" "]" text "${text}")
    string(REPLACE "${b4}" "\\" text_${id} "${text}")
    string(SHA256 hash "${text_${id}}\n")
    string(REGEX MATCHALL "[A-Za-z_][A-Za-z0-9_]*" words "${uses_${id}}")
    list(REMOVE_DUPLICATES words)
    set(needs "")
    foreach(word IN LISTS words)
      if(NOT DEFINED own_${id}_${word})
        list(APPEND needs ${in_${source_${id}}_${word}})
      endif()
    endforeach()
    list(REMOVE_DUPLICATES needs)
    cmake_path(GET file STEM LAST_ONLY name)
    list(REMOVE_ITEM needs "${name}")
    string(REPLACE ";" " " needs "\t${needs}\n")
    string(REPLACE "\t\n" "\t-\n" needs "${needs}")
    string(APPEND index "${row_${id}}\t${hash}\t${commit_${id}}${needs}")
    list(APPEND files "${file}")
    list(APPEND ids ${id})
  endif()
endforeach()
if(NOT faults STREQUAL "")
  message(NOTICE "${faults}")
  message(FATAL_ERROR "snippets: nothing was written; fix what is listed above")
endif()
list(REMOVE_ITEM gone ${files})
string(REGEX REPLACE "\n$" "" text_0 "${index}")
list(TRANSFORM files REPLACE "[^/]+$" ".snippets-new" OUTPUT_VARIABLE trials)
list(REMOVE_DUPLICATES trials)
list(TRANSFORM files REPLACE "([^/]+)$" ".snippets-new/\\1" OUTPUT_VARIABLE news)
execute_process(COMMAND "${CMAKE_COMMAND}" -E make_directory ${trials}
  RESULT_VARIABLE failed ERROR_VARIABLE said)
if(NOT failed)  # CMake would stop where it cannot create a file
  execute_process(COMMAND "${CMAKE_COMMAND}" -E touch ${news} "${OUT}/.snippets-new/one-more"
    RESULT_VARIABLE failed ERROR_VARIABLE said)
endif()
file(REMOVE "${OUT}/.snippets-new/one-more")
foreach(step write move)  # all are written before one is moved to its place
  foreach(file new id IN ZIP_LISTS files news ids)
    set(text "${text_${id}}")
    string(SHA256 hash "${text}\n")
    set(got "")
    if(step STREQUAL "write" AND NOT failed)
      file(CONFIGURE OUTPUT "${new}" CONTENT "@text@" @ONLY NEWLINE_STYLE LF)
      file(SHA256 "${new}" got)
    elseif(NOT failed)
      if(EXISTS "${file}")
        file(SHA256 "${file}" got)
      endif()
      if(NOT got STREQUAL hash)  # what is up to date is left alone
        file(RENAME "${new}" "${file}" RESULT failed)
        set(got "${hash}")
      endif()
    endif()
    if(failed OR NOT got STREQUAL hash)
      file(REMOVE_RECURSE ${trials})
      message(FATAL_ERROR "${file}: could not be written whole; is the disk full, or the folder read-only? Make room or choose another OUT, then export again. ${said}")
    endif()
  endforeach()
  file(REMOVE ${gone} "${OUT}/.snippets-new/one-more")  # before the new index
endforeach()
file(REMOVE_RECURSE ${trials})
foreach(file IN LISTS gone)
  if(EXISTS "${file}")
    message(FATAL_ERROR "${file}: its region is gone, but it could not be removed; is its folder read-only? Remove it yourself.")
  endif()
endforeach()
message(STATUS "snippets: ${count} in ${OUT}")
