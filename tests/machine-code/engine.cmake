# Holds the machine code of one cubin against the rules of one lesson.
#
#   cmake -DRULES=tests/machine-code/LESSON.cmake -DCUBIN=x.cubin -DARCH=75
#         -DCUOBJDUMP=path -P tests/machine-code/engine.cmake
#
# -DSOURCE=x.cu -DNVCC=path in addition: compile x.cu to the cubin first.
#
# A rules file calls rule() once or more for each claim:
#
#   rule(ID KERNEL NAME [TEMPLATE ARG...] [ARCH 90]
#        MEASURE RELATION VALUE)
#
# KERNEL is the kernel's name; ALL stands for every kernel of the lesson, less
# those named after EXCEPT. TEMPLATE gives the first integer template
# arguments, with _ for any. A rule is held against every kernel that fits,
# and is broken where none does. ARCH: only for that architecture.
#
# MEASURE is one of
#   COUNT PATTERN            how many instructions there are
#   PREDICATED PATTERN       how many of them have a predicate
#   LOOPS_AROUND PATTERN     how many backward branches enclose one
#   RUN PATTERN UNTIL BREAK  the longest sequence of PATTERN, in the order of
#                            the addresses, with no BREAK in it
#   BLOCK PATTERN UNTIL BREAK   the same, of instructions without a predicate
#                            and in one basic block: they issue together
# RELATION is EQUAL, AT_LEAST or AT_MOST. VALUE is a number or an expression,
# in which @1 is the first integer template argument of the kernel. A PATTERN
# is a regular expression that must match at the start of an instruction, its
# predicate left off.
#
# measure(VARIABLE KERNEL ... MEASURE) gives the number itself, of one kernel.
cmake_minimum_required(VERSION 3.25)
include(${CMAKE_CURRENT_LIST_DIR}/../../cmake/text.cmake)
include(${CMAKE_CURRENT_LIST_DIR}/../rules.cmake)

set(measures "COUNT;PREDICATED;LOOPS_AROUND;RUN;BLOCK;UNTIL")
set(relations "EQUAL;AT_LEAST;AT_MOST")

# Reads a listing of cuobjdump -sass into a global list for each kernel, of
# elements "ADDRESS PREDICATE INSTRUCTION", with - for no predicate.
function(read_sass sass)
  string(REPLACE ";" "" sass "${sass}")  # behind each instruction
  list_safe(sass)
  set(mark "Function : ")
  set(kernels "")
  string(FIND "${sass}" "${mark}" at)
  while(at GREATER -1)
    math(EXPR at "${at} + 11")
    string(SUBSTRING "${sass}" ${at} -1 sass)
    string(FIND "${sass}" "${mark}" at)
    string(SUBSTRING "${sass}" 0 ${at} body)
    string(REGEX MATCH "^[^ \t\n]+" name "${body}")
    if(name MATCHES "^_ZN")
      continue()  # in a namespace: a library's, not the lesson's
    endif()
    string(REGEX MATCHALL "/\\*[0-9a-f]+\\*/ [^/\n]*" lines "${body}")
    set(code "")
    foreach(line IN LISTS lines)
      if(line MATCHES "/\\*([0-9a-f]+)\\*/ +(@(!?U?P[0-9T]+) +)?(.*)")
        set(address ${CMAKE_MATCH_1})
        set(predicate "${CMAKE_MATCH_3}")
        string(STRIP "${CMAKE_MATCH_4}" instruction)
        math(EXPR address "0x${address}")
        if(predicate STREQUAL "")
          set(predicate "-")
        endif()
        list(APPEND code "${address} ${predicate} ${instruction}")
      endif()
    endforeach()
    list(APPEND kernels "${name}")
    set_property(GLOBAL PROPERTY "CODE_${name}" "${code}")
  endwhile()
  set_property(GLOBAL PROPERTY KERNELS "${kernels}")
endfunction()

# The mangled names of the kernels that KERNEL, TEMPLATE and EXCEPT choose.
function(find_kernels out)
  cmake_parse_arguments(PARSE_ARGV 1 k ""
    "KERNEL;ARCH;${measures};${relations}" "TEMPLATE;EXCEPT")
  get_property(all GLOBAL PROPERTY KERNELS)
  set(found "")
  if(k_KERNEL STREQUAL "ALL")
    set(found "${all}")
    foreach(name IN LISTS k_EXCEPT)
      string(LENGTH "${name}" length)
      list(FILTER found EXCLUDE REGEX "^_Z${length}${name}")
    endforeach()
  else()
    string(LENGTH "${k_KERNEL}" length)
    set(pattern "^_Z${length}${k_KERNEL}")
    if(NOT "${k_TEMPLATE}" STREQUAL "")
      string(APPEND pattern "I")
      foreach(argument IN LISTS k_TEMPLATE)
        if(argument STREQUAL "_")
          string(APPEND pattern "(L[a-z]n?[0-9]+E)")
        else()
          string(APPEND pattern "L[a-z]${argument}E")
        endif()
      endforeach()
    endif()
    foreach(name IN LISTS all)
      if(name MATCHES "${pattern}")
        list(APPEND found "${name}")
      endif()
    endforeach()
  endif()
  set(${out} "${found}" PARENT_SCOPE)
endfunction()

# Computes `value`: @1 is the first integer template argument of the kernel,
# @2 the second.
function(expand out value kernel)
  string(REGEX MATCHALL "L[a-z][0-9]+E" arguments "${kernel}")
  set(number 0)
  foreach(argument IN LISTS arguments)
    math(EXPR number "${number} + 1")
    string(REGEX MATCH "[0-9]+" argument "${argument}")
    string(REPLACE "@${number}" "${argument}" value "${value}")
  endforeach()
  math(EXPR value "${value}")
  set(${out} ${value} PARENT_SCOPE)
endfunction()

# The address that a branch may jump to, or nothing.
function(branch_target out instruction)
  set(target "")
  if(instruction MATCHES
     "^(BRA|BRX|JMP|JMX|BSSY|SSY|CALL|WARPSYNC)[A-Z.]* .*0x([0-9a-f]+)")
    math(EXPR target "0x${CMAKE_MATCH_2}")
  endif()
  set(${out} "${target}" PARENT_SCOPE)
endfunction()

function(count_instructions out code predicate pattern)
  set(count 0)
  foreach(line IN LISTS code)
    if(line MATCHES "^[0-9]+ ${predicate} (${pattern})")
      math(EXPR count "${count} + 1")
    endif()
  endforeach()
  set(${out} ${count} PARENT_SCOPE)
endfunction()

function(count_loops_around out code pattern)
  set(count 0)
  foreach(branch IN LISTS code)
    string(REGEX MATCH "^([0-9]+) [^ ]+ (.*)" ignored "${branch}")
    set(end ${CMAKE_MATCH_1})
    set(instruction "${CMAKE_MATCH_2}")
    if(NOT instruction MATCHES "^(BRA|JMP)")
      continue()
    endif()
    branch_target(start "${instruction}")
    if(start STREQUAL "" OR NOT start LESS end)
      continue()
    endif()
    foreach(line IN LISTS code)
      if(line MATCHES "^([0-9]+) [^ ]+ (${pattern})" AND
         NOT CMAKE_MATCH_1 LESS start AND NOT CMAKE_MATCH_1 GREATER end)
        math(EXPR count "${count} + 1")
        break()
      endif()
    endforeach()
  endforeach()
  set(${out} ${count} PARENT_SCOPE)
endfunction()

function(longest_run out code pattern break in_block)
  set(leaders "")
  if(in_block)
    foreach(line IN LISTS code)
      string(REGEX REPLACE "^[0-9]+ [^ ]+ " "" instruction "${line}")
      branch_target(target "${instruction}")
      list(APPEND leaders ${target})
    endforeach()
  endif()
  set(longest 0)
  set(run 0)
  foreach(line IN LISTS code)
    string(REGEX MATCH "^([0-9]+) ([^ ]+) (.*)" ignored "${line}")
    set(address ${CMAKE_MATCH_1})
    set(predicate ${CMAKE_MATCH_2})
    set(instruction "${CMAKE_MATCH_3}")
    if(instruction MATCHES "^(${break})" OR (in_block AND
       (address IN_LIST leaders OR
        instruction MATCHES "^(BRA|BRX|JMP|JMX|EXIT|RET|CALL)")))
      set(run 0)
    endif()
    if(instruction MATCHES "^(${pattern})" AND
       (NOT in_block OR predicate STREQUAL "-"))
      math(EXPR run "${run} + 1")
      if(run GREATER longest)
        set(longest ${run})
      endif()
    endif()
  endforeach()
  set(${out} ${longest} PARENT_SCOPE)
endfunction()

# The number that a measure gives for one kernel, and how to say it.
function(take_measure out says name)
  cmake_parse_arguments(PARSE_ARGV 3 m ""
    "KERNEL;ARCH;${measures};${relations}" "TEMPLATE;EXCEPT")
  get_property(code GLOBAL PROPERTY "CODE_${name}")
  if(DEFINED m_COUNT)
    count_instructions(value "${code}" "[^ ]+" "${m_COUNT}")
    set(text "${value} x ${m_COUNT}")
  elseif(DEFINED m_PREDICATED)
    count_instructions(value "${code}" "!?U?P[0-9T]" "${m_PREDICATED}")
    set(text "${value} x predicated ${m_PREDICATED}")
  elseif(DEFINED m_LOOPS_AROUND)
    count_loops_around(value "${code}" "${m_LOOPS_AROUND}")
    set(text "${value} loops around ${m_LOOPS_AROUND}")
  elseif(DEFINED m_RUN AND DEFINED m_UNTIL)
    longest_run(value "${code}" "${m_RUN}" "${m_UNTIL}" OFF)
    set(text "${value} x ${m_RUN} before ${m_UNTIL}")
  elseif(DEFINED m_BLOCK AND DEFINED m_UNTIL)
    longest_run(value "${code}" "${m_BLOCK}" "${m_UNTIL}" ON)
    set(text "${value} x ${m_BLOCK} before ${m_UNTIL} in one basic block")
  else()
    message(FATAL_ERROR "no measure in: ${ARGN}")
  endif()
  set(${out} ${value} PARENT_SCOPE)
  set(${says} "${text}" PARENT_SCOPE)
endfunction()

function(measure out)
  set(${out} 0 PARENT_SCOPE)
  cmake_parse_arguments(PARSE_ARGV 1 m "" "KERNEL;${measures}"
    "TEMPLATE;EXCEPT")
  find_kernels(kernels ${ARGN})
  list(LENGTH kernels count)
  if(NOT count EQUAL 1)
    fault("measure: ${count} kernels fit '${m_KERNEL} ${m_TEMPLATE}', not 1")
    return()
  endif()
  take_measure(value says "${kernels}" ${ARGN})
  set(${out} ${value} PARENT_SCOPE)
endfunction()

function(rule id)
  cmake_parse_arguments(PARSE_ARGV 1 r ""
    "KERNEL;ARCH;${measures};${relations}" "TEMPLATE;EXCEPT")
  set_property(GLOBAL APPEND PROPERTY RULES "${id}")
  if(NOT "${r_UNPARSED_ARGUMENTS}" STREQUAL "")
    message(FATAL_ERROR "rule ${id}: what is '${r_UNPARSED_ARGUMENTS}'?")
  endif()
  if(DEFINED r_ARCH AND NOT r_ARCH STREQUAL ARCH)
    return()
  endif()
  find_kernels(kernels ${ARGN})
  if(kernels STREQUAL "")
    fault("${id}: no kernel '${r_KERNEL} ${r_TEMPLATE}' in the cubin")
  endif()
  foreach(name IN LISTS kernels)
    take_measure(value says "${name}" ${ARGN})
    if(DEFINED r_EQUAL)
      expand(goal "${r_EQUAL}" "${name}")
      set(wanted "exactly ${goal}")
      set(faulty NOT value EQUAL goal)
    elseif(DEFINED r_AT_LEAST)
      expand(goal "${r_AT_LEAST}" "${name}")
      set(wanted "at least ${goal}")
      set(faulty value LESS goal)
    elseif(DEFINED r_AT_MOST)
      expand(goal "${r_AT_MOST}" "${name}")
      set(wanted "at most ${goal}")
      set(faulty value GREATER goal)
    else()
      message(FATAL_ERROR "rule ${id}: no relation")
    endif()
    if(${faulty})
      fault("${id}: ${name} has ${says}, wanted ${wanted}")
    endif()
  endforeach()
endfunction()

foreach(needed RULES ARCH CUOBJDUMP)
  if("${${needed}}" STREQUAL "")
    message(FATAL_ERROR "engine.cmake: -D${needed}=... is missing")
  endif()
endforeach()
if(SOURCE)
  cmake_path(GET CUBIN PARENT_PATH folder)
  file(MAKE_DIRECTORY "${folder}")
  set(host "")
  if(HOST)
    set(host "-ccbin=${HOST}")
  endif()
  execute_process(
    COMMAND "${NVCC}" ${host} -std=c++17 -O3 -arch=sm_${ARCH} -cubin -o "${CUBIN}"
      "${SOURCE}"
    COMMAND_ERROR_IS_FATAL ANY)
endif()
execute_process(
  COMMAND "${CUOBJDUMP}" -sass "${CUBIN}"
  OUTPUT_VARIABLE sass
  COMMAND_ERROR_IS_FATAL ANY)
read_sass("${sass}")
include("${RULES}")

get_property(kernels GLOBAL PROPERTY KERNELS)
list(LENGTH kernels kernels)
rules_hold(${kernels} kernels "${CUBIN}")
