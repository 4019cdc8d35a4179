# Targets and tests of the snippets, the lesson pages, the evidence and the
# charts. No GPU needed but by the target `evidence`.
get_property(lessons GLOBAL PROPERTY LESSONS)
list(JOIN lessons "," lessons_joined)

add_custom_target(snippets
  COMMAND ${CMAKE_COMMAND} "-DOUT=${CMAKE_BINARY_DIR}/snippets"
    -P "${CMAKE_SOURCE_DIR}/cmake/snippets.cmake"
  COMMENT "Snippets for page generators" VERBATIM)
add_custom_target(weave
  COMMAND ${CMAKE_COMMAND} "-DWORK=${CMAKE_BINARY_DIR}/weave"
    -P "${CMAKE_SOURCE_DIR}/cmake/weave.cmake"
  COMMENT "Snippets and recorded output into the lesson pages" VERBATIM)
add_custom_target(evidence
  COMMAND ${CMAKE_COMMAND} "-DNVCC=${CMAKE_CUDA_COMPILER}"
    "-DWORK=${CMAKE_BINARY_DIR}/evidence-work"
    -P "${CMAKE_SOURCE_DIR}/cmake/evidence.cmake"
  USES_TERMINAL COMMENT "Runs the lessons and records what they print"
  VERBATIM)
add_custom_target(charts
  COMMAND ${CMAKE_COMMAND} -P "${CMAKE_SOURCE_DIR}/cmake/chart.cmake"
  COMMENT "Charts from evidence" VERBATIM)

if(NOT LESSONS_CHECKS)
  return()
endif()
set(tests "${CMAKE_SOURCE_DIR}/tests")
set(work "${CMAKE_BINARY_DIR}/page-tests")

# --- Snippets ----------------------------------------------------------------

file(GLOB bad CONFIGURE_DEPENDS "${tests}/snippets/bad/*.cu")
foreach(file IN LISTS bad)
  cmake_path(GET file STEM name)
  add_test(NAME snippets.bad.${name}
    COMMAND ${CMAKE_COMMAND} "-DFILE=${file}"
      "-DWORK=${work}/snippets/bad/${name}" -P "${tests}/snippets/bad.cmake")
endforeach()
file(GLOB good CONFIGURE_DEPENDS "${tests}/snippets/good/expected/*.cu")
add_test(NAME snippets.hostile
  COMMAND ${CMAKE_COMMAND} "-DEXPECTED=${good}"
    "-DSOURCE=${tests}/snippets/good/hostile/hostile.cu"
    "-DWORK=${work}/snippets/hostile" -P "${tests}/snippets/hostile.cmake")
set_tests_properties(snippets.hostile PROPERTIES
  FIXTURES_SETUP snippets_hostile)
add_test(NAME snippets.export
  COMMAND ${CMAKE_COMMAND} "-DWORK=${work}/snippets/export"
    -P "${tests}/snippets/export.cmake")
add_test(NAME snippets.lessons
  COMMAND ${CMAKE_COMMAND} "-DWORK=${work}/snippets/lessons"
    -P "${tests}/snippets/names.cmake")
set_tests_properties(snippets.lessons PROPERTIES
  FIXTURES_SETUP snippets_lessons)

# Embedded in the pages of two generators, which only a maintainer needs.
find_package(Python3 QUIET COMPONENTS Interpreter)
set(require "")
if(LESSONS_REQUIRE_TOOLS)
  set(require --require)
  if(NOT Python3_FOUND)
    message(FATAL_ERROR "LESSONS_REQUIRE_TOOLS: no Python found")
  endif()
endif()
foreach(tool IN ITEMS sphinx-build mkdocs)
  foreach(what IN ITEMS hostile lessons)
    set(name snippets.${tool}.${what})
    if(NOT Python3_FOUND)
      add_test(NAME ${name} COMMAND ${CMAKE_COMMAND} -E false)
      set_tests_properties(${name} PROPERTIES DISABLED TRUE)
      continue()
    endif()
    add_test(NAME ${name}
      COMMAND ${Python3_EXECUTABLE} "${tests}/snippets/generators.py" ${tool}
        "${work}/snippets/${what}/out" "${work}/snippets/${tool}/${what}"
        ${require})
    set_tests_properties(${name} PROPERTIES
      FIXTURES_REQUIRED snippets_${what} SKIP_RETURN_CODE 77)
  endforeach()
endforeach()

# --- Cases on a small tree ---------------------------------------------------

# page_case(NAME [STDERR text] [STDOUT text] [FILE path FROM text TO text]
#   [REMOVE path] [COPY path COPY_TO path] [UNCHANGED path] SCRIPT argument...):
# cmake/SCRIPT.cmake on an edited copy of tests/tree; without TO, FROM is taken
# out. Without STDERR the script must succeed, with it fail and say that.
function(page_case name)
  cmake_parse_arguments(PARSE_ARGV 1 case ""
    "STDERR;STDOUT;FILE;FROM;TO;REMOVE;COPY;COPY_TO;UNCHANGED;TREE" "SCRIPT")
  set(options "")
  foreach(option IN ITEMS STDERR STDOUT FILE FROM TO REMOVE COPY COPY_TO
      UNCHANGED)
    if(DEFINED case_${option})
      string(REPLACE ";" "\\;" value "${case_${option}}")
      list(APPEND options "-D${option}=${value}")
    endif()
  endforeach()
  if(DEFINED case_FROM AND NOT DEFINED case_TO)
    list(APPEND options "-DTO=")
  endif()
  set(exit 0)
  if(DEFINED case_STDERR)
    set(exit nonzero)
  endif()
  if(NOT DEFINED case_TREE)
    set(case_TREE "${tests}/tree")
  endif()
  list(POP_FRONT case_SCRIPT script)
  add_test(NAME ${name}
    COMMAND ${CMAKE_COMMAND} "-DTREE=${case_TREE}" "-DWORK=${work}/${name}"
      -DEXIT=${exit} ${options} -P "${tests}/case.cmake" --
      ${CMAKE_COMMAND} -DROOT=@TREE@ "-DWORK=${work}/${name}/work"
      ${case_SCRIPT} -P "${CMAKE_SOURCE_DIR}/cmake/${script}.cmake")
endfunction()
set(page day01-first/README.md)
set(lesson day01-first/first.cu)
set(run evidence/day01-first/run-2026-01-02-test-gpu-sm_75.txt)

# --- Weave -------------------------------------------------------------------

add_test(NAME weave.pages
  COMMAND ${CMAKE_COMMAND} -DCHECK=ON "-DWORK=${work}/weave"
    -P "${CMAKE_SOURCE_DIR}/cmake/weave.cmake")

function(weave_case name)
  page_case(weave.${name} ${ARGN} SCRIPT weave -DCHECK=ON)
endfunction()
weave_case(as-it-is UNCHANGED ${page})
weave_case(stale-snippet FILE ${lesson} FROM "1.0f" TO "2.0f"
  STDERR "${page}:5: block 'snippet: one-kernel' is stale")
weave_case(stale-block FILE ${page} FROM "nullptr, 0" TO "nullptr, 1"
  STDERR "${page}:16: block 'snippet: the-launch' is stale")
weave_case(stale-top-page FILE README.md FROM "only slides" TO "some slides"
  STDERR "README.md:6: block 'snippet: day01-first/for-slides' is stale")
weave_case(stale-output FILE ${run} FROM "87.5" TO "87.6"
  STDERR "from \"row \" to \"one\"' is stale")
weave_case(emptied-block FILE README.md
  FROM "// A comment that only slides show.\n"
  STDERR "README.md:6: block 'snippet: day01-first/for-slides' is stale")
weave_case(unknown-snippet FILE ${page} FROM "snippet: one-kernel"
  TO "snippet: two-kernel" STDERR "${page}:5: no snippet 'day01-first/two-kernel'")
weave_case(unused-snippet FILE ${page} FROM "<!-- for other pages: for-slides -->" STDERR "${page}:1: snippet 'for-slides' of the lesson is unused")
weave_case(new-snippet FILE ${lesson} FROM "// snippet: for-slides"
  TO "// snippet: brand-new\nint a;\n// end snippet\n// snippet: for-slides"
  STDERR "${page}:1: snippet 'brand-new' of the lesson is unused")
weave_case(listed-and-used FILE ${page} FROM "pages: for-slides"
  TO "pages: for-slides the-launch"
  STDERR "snippet 'the-launch' is used here and listed")
weave_case(listed-unknown FILE ${page} FROM "pages: for-slides"
  TO "pages: for-slides gone" STDERR "lists the snippet 'gone'")
weave_case(lesson-removed REMOVE ${lesson}
  STDERR "${page}:5: no snippet 'day01-first/one-kernel'")
weave_case(page-removed REMOVE ${page}
  STDERR "${page}:1: snippet 'one-kernel' of the lesson is unused")
weave_case(malformed-lesson FILE ${lesson} FROM "// snippet: for-slides"
  TO "// Snippet: for-slides" STDERR "almost a snippet marker")
weave_case(unclosed FILE README.md FROM "<!-- end -->\n"
  STDERR "README.md:6: block 'snippet: day01-first/for-slides' never ends")
weave_case(stray-end FILE README.md FROM "# A small repository\n"
  TO "# A small repository\n<!-- end -->\n" STDERR "README.md:2: '<!-- end -->' ends no block")
weave_case(near-miss FILE README.md FROM "<!-- snippet: day01-first/for-slides -->"
  TO "<!--snippet: day01-first/for-slides-->" STDERR "README.md:6: almost a marker")
weave_case(open-fence FILE README.md FROM "```text" TO "````text"
  STDERR "a code fence '````' never ends")
weave_case(no-evidence REMOVE ${run}
  STDERR "no such file: evidence/day01-first/run-*-test-gpu-sm_75.txt; record it with the target `evidence`")
weave_case(two-evidence-files COPY ${run}
  COPY_TO evidence/day01-first/run-2026-01-03-test-gpu-sm_75.txt
  STDERR "2 files are evidence/day01-first/run-*-test-gpu-sm_75.txt")
weave_case(no-such-lines FILE ${page} FROM "to \"one\"" TO "to \"three\""
  STDERR "has no lines from \"row \" to \"three\"")
weave_case(malformed-output FILE ${page} FROM "from \"row \"" TO "starting \"row \""
  STDERR "cannot read 'evidence/")
weave_case(dead-link FILE README.md FROM "day01-first/README.md#day-1-first"
  TO "day01-first/PAGE.md" STDERR "README.md:3: link to 'day01-first/PAGE.md'")
weave_case(dead-anchor FILE ${page} FROM "#a-small-repository" TO "#a-large-one"
  STDERR "${page}:3: link to '../README.md#a-large-one': no such heading")
weave_case(dead-image FILE ${page} FROM "Its launch:"
  TO "![bars](chart.svg)" STDERR "link to 'chart.svg': no such file")
weave_case(dead-picture FILE ${page} FROM "Its launch:"
  TO "<picture><source srcset=\"dark.svg\"></picture>"
  STDERR "link to 'dark.svg': no such file")
weave_case(link-outside FILE ${page} FROM "../README.md#a-small-repository"
  TO "../../case.cmake" STDERR "no such file here")
add_test(NAME weave.writes
  COMMAND ${CMAKE_COMMAND} "-DWORK=${work}/weave.writes"
    -P "${tests}/weave/writes.cmake")
page_case(weave.writes-nothing-wrong FILE ${lesson} FROM "1.0f;\n}" TO
  "1.0f;\n}\n// end snippet\n// snippet: extra\nint a;"
  STDERR "snippet 'extra' of the lesson is unused" UNCHANGED ${page}
  SCRIPT weave)

# --- Evidence ----------------------------------------------------------------

foreach(one IN LISTS lessons)
  string(REGEX REPLACE "^.*/([^/]*)\\.cu\\|.*$" "\\1" name "${one}")
  set(compare "")
  if(TARGET ${name})  # not left out here: its machine code is compared
    set(compare "-DCUBIN_DIR=${CMAKE_BINARY_DIR}/cubin"
      "-DNVCC=${CMAKE_CUDA_COMPILER}")
  endif()
  add_test(NAME evidence.${name}
    COMMAND ${CMAKE_COMMAND} -DCHECK=ON -DPART=lessons "-DLESSONS=${one}"
      ${compare} -P "${CMAKE_SOURCE_DIR}/cmake/evidence.cmake")
endforeach()
foreach(part IN ITEMS orphans figures)
  add_test(NAME evidence.${part}
    COMMAND ${CMAKE_COMMAND} -DCHECK=ON -DPART=${part}
      -P "${CMAKE_SOURCE_DIR}/cmake/evidence.cmake")
endforeach()

function(evidence_case name)
  page_case(evidence.${name} ${ARGN} SCRIPT evidence -DCHECK=ON)
endfunction()
evidence_case(as-it-is UNCHANGED ${run})
evidence_case(output-edited FILE ${run} FROM "87.5" TO "87.6"
  STDERR "${run}:1: the output is not what was recorded")
evidence_case(output-longer FILE ${run} FROM "passed." TO "passed!"
  STDERR "${run}:1: the output is not what was recorded")
evidence_case(source-edited FILE ${lesson} FROM "1.0f" TO "2.0f"
  STDERR "${run}:1: stale: ${lesson} has changed since it ran; record it: cmake --build build --target evidence, on")
evidence_case(header-edited FILE ${lesson} FROM "driver 580.1.2"
  TO "driver 580.1.3" STDERR "${lesson}:6: 'Verified: ")
evidence_case(unverified FILE ${lesson} FROM
  "Test GPU, compute capability 9.0, driver 580.1.2,\n//   CUDA 13.0, 2026-01-02,\n//   ${run}"
  TO "UNVERIFIED" STDERR "${lesson}:6: 'Verified: UNVERIFIED' is not what")
evidence_case(no-file REMOVE ${run} STDERR
  "${lesson}:6: no evidence/day01-first/run-<date>-<gpu>-sm_75.txt; record it")
foreach(key IN ITEMS schema lesson source source-sha256 cubin-sha256
    compile-command run-command nvcc-version host-compiler os driver
    cuda-driver-version gpu compute-capability sms ecc mig clocks power-limit
    git-commit git-dirty date-utc exit-code body-sha256)
  evidence_case(no-key.${key} FILE ${run} FROM "# ${key}: " TO "# no-${key}: "
    STDERR "${run}:1: no key '${key}'")
endforeach()
evidence_case(key-empty FILE ${run} FROM "Test OS 1"
  STDERR "'' is no value for 'os'")
evidence_case(key-placeholder FILE ${run} FROM "# os: Test OS 1" TO "# os: TODO"
  STDERR "${run}:10: 'TODO' is no value for 'os'")
evidence_case(key-not-known FILE ${run} FROM "# os: Test OS 1" TO "# os: n/a"
  STDERR "'os' is n/a")
evidence_case(key-twice FILE ${run} FROM "# os: " TO "# os: Test OS 2\n# os: "
  STDERR "${run}:11: key 'os' a second time")
evidence_case(key-unknown FILE ${run} FROM "# os: " TO "# kernel: 6.1\n# os: "
  STDERR "${run}:10: unknown key 'kernel'")
evidence_case(no-empty-line FILE ${run} FROM "\n\nTest GPU" TO "\nTest GPU"
  STDERR "not a line '# key: value'")
evidence_case(carriage-return FILE ${run} FROM "passed." TO "passed.@CR@ "
  STDERR "${run}:31: carriage return")
evidence_case(other-schema FILE ${run} FROM "# schema: 1" TO "# schema: 2"
  STDERR "schema 2, expected 1")
evidence_case(other-lesson FILE ${run} FROM "# lesson: day01-first/first"
  TO "# lesson: day01-first/second" STDERR "of day01-first/second")
evidence_case(exit-code-1 FILE ${run} FROM "# exit-code: 0" TO "# exit-code: 1"
  STDERR "exit-code 1; a failed run is not evidence")
evidence_case(future FILE ${run} FROM "# date-utc: 2026-" TO "# date-utc: 2999-"
  STDERR "lies in the future")
evidence_case(no-date FILE ${run} FROM "# date-utc: 2026-01-02T" TO "# date-utc: 2026-01-02 "
  STDERR "is no date")
evidence_case(other-date FILE ${run} FROM "# date-utc: 2026-01-02" TO "# date-utc: 2026-01-01"
  STDERR "but named 2026-01-02")
evidence_case(other-gpu FILE ${run} FROM "# gpu: Test GPU" TO "# gpu: Best GPU"
  STDERR "but not named best-gpu")
evidence_case(capability-below FILE ${run} FROM "# compute-capability: 9.0"
  TO "# compute-capability: 7.0"
  STDERR "compute capability 7.0 is below what the lesson needs")
evidence_case(other-command FILE ${run} FROM "-O3 -arch" TO "-O3 --use_fast_math -arch"
  STDERR "compiled by 'nvcc -std=c++17 -O3 --use_fast_math")
evidence_case(other-sms FILE ${run} FROM "# sms: 4" TO "# sms: 5"
  STDERR "5 SMs, the output 'Test GPU")
evidence_case(other-cuda FILE ${run} FROM "# cuda-driver-version: 13.0"
  TO "# cuda-driver-version: 12.0" STDERR "the header says driver CUDA 12.0")
evidence_case(no-commit FILE ${run} FROM "# git-commit: 0123" TO "# git-commit: main"
  STDERR "is no git-commit")
evidence_case(dirty-unknown FILE ${run} FROM "# git-dirty: no"
  TO "# git-dirty: maybe" STDERR "git-dirty is 'maybe'")
evidence_case(cubin-no-hash FILE ${run} FROM "# cubin-sha256: "
  TO "# cubin-sha256: sha256 " STDERR "is no cubin-sha256")
evidence_case(quick-run FILE ${run} FROM "peak 100 GB/s"
  TO "peak 100 GB/s\nLESSON_QUICK: the times below mean nothing."
  STDERR "the output of a quick or failed run")
evidence_case(failed-check FILE ${run} FROM "All checks passed."
  TO "FAILED sum: 1 is not 2" STDERR "the output of a quick or failed run")
evidence_case(misnamed COPY ${run} COPY_TO evidence/day01-first/run-latest.txt
  STDERR "evidence/day01-first/run-latest.txt:1: not named <kind>-<date>-<gpu>")
evidence_case(misnamed-run COPY ${run}
  COPY_TO evidence/day01-first/run-2026-01-02-test-gpu-fast.txt
  STDERR "run-2026-01-02-test-gpu-fast.txt:1: not named run-<date>-test-gpu-sm_XX.txt")
evidence_case(no-lessons FILE CMakeLists.txt FROM "lesson(" TO "# lesson("
  STDERR "lists no lesson")
evidence_case(orphan COPY ${run} COPY_TO evidence/day99-gone/run-2026-01-02-test-gpu-sm_75.txt
  STDERR "evidence/day99-gone/run-2026-01-02-test-gpu-sm_75.txt:1: belongs to no lesson")
evidence_case(orphan-kind COPY ${run} COPY_TO evidence/day01-first/notes.txt
  STDERR "evidence/day01-first/notes.txt:1: belongs to no lesson")
evidence_case(other-kind COPY ${run} COPY_TO evidence/day01-first/profile-2026-01-02-test-gpu.csv)
foreach(file IN ITEMS profile-2026-01-02-test-gpu.csv
    sanitizer-2026-01-02-test-gpu.txt mutants-2026-01-02-test-gpu.txt
    hostile-2026-01-02-test-gpu.txt)
  string(REGEX REPLACE "-.*" "" kind "${file}")
  evidence_case(stale-${kind} COPY ${run} COPY_TO evidence/day01-first/${file}
    FILE ${lesson} FROM "1.0f" TO "2.0f"
    STDERR "evidence/day01-first/${file}:1: stale: ${lesson} has changed since it ran; record it: cmake --build build --target ${kind}, on")
endforeach()
evidence_case(figure-prose FILE ${page} FROM "It writes 87.5 GB/s" TO "It writes 88.5 GB/s"
  STDERR "${page}:23: '88.5 GB/s' stands in no output under evidence/day01-first")
evidence_case(figure-rounded FILE ${page} FROM "1,234.5 us" TO "1,234 us"
  STDERR "'1,234 us' stands in no output")
evidence_case(figure-range FILE ${page} FROM "12% to 87.5 %" TO "13 to 87.5 %"
  STDERR "'13 %' stands in no output")
evidence_case(figure-times FILE ${page} FROM "Its launch:" TO "It is 1.5x faster."
  STDERR "'1.5x' stands in no output")
evidence_case(figure-table FILE ${page} FROM "| one | 87.5 |" TO "| one | 87.4 |"
  STDERR "'87.4' stands in no output")
evidence_case(figure-top-page FILE README.md FROM "87.5" TO "90.5"
  STDERR "README.md:4: '90.5 GB/s' stands in no output under evidence")
evidence_case(figure-excepted-no-more FILE ${page} FROM "Half is 50 %." TO "Half."
  STDERR "excepts the figure 50, which the page does not hold")

# The target itself, with programs that stand in for nvcc and nvidia-smi.
if(NOT WIN32)
  foreach(case IN ITEMS good again fails cannot-run other-gpu no-git
      no-nvidia-smi cubin commit)
    add_test(NAME evidence.record.${case}
      COMMAND ${CMAKE_COMMAND} -DCASE=${case}
        "-DWORK=${work}/evidence/record-${case}"
        -P "${tests}/evidence/record.cmake")
  endforeach()
endif()

# --- Charts ------------------------------------------------------------------

add_test(NAME chart.lessons
  COMMAND ${CMAKE_COMMAND} -DCHECK=ON
    -P "${CMAKE_SOURCE_DIR}/cmake/chart.cmake")

function(chart_case name)
  page_case(chart.${name} ${ARGN} TREE "${tests}/chart/tree"
    SCRIPT chart -DCHECK=ON)
endfunction()
set(day24 evidence/day24-reduction/run-2026-01-02-test-gpu-sm_75.txt)
set(day25 evidence/day25-reduction/run-2026-01-02-test-gpu-sm_75.txt)
set(day45 evidence/day45-occupancy/run-2026-01-02-test-gpu-sm_75.txt)
set(day77 evidence/day77-clusters/run-2026-01-02-test-gpu-sm_90.txt)
chart_case(as-it-is UNCHANGED day24-reduction/chart-rows.svg)
chart_case(stale-rows FILE ${day24} FROM "519.3" TO "519.4"
  STDERR "day24-reduction/chart-rows.svg:1: not what ${day24} draws")
chart_case(stale-growth FILE ${day25} FROM "0.0871" TO "0.0872"
  STDERR "day25-reduction/chart-growth.svg:1: not what")
chart_case(stale-curve FILE ${day45} FROM "690 #" TO "691 #"
  STDERR "day45-occupancy/chart-curve.svg:1: not what")
chart_case(stale-clusters FILE ${day77} FROM " 1.30" TO " 1.31"
  STDERR "day77-clusters/chart-rows.svg:1: not what")
chart_case(other-transcript FILE ${day24} FROM "# body-sha256: "
  TO "# body-sha256: 0" STDERR "day24-reduction/chart-rows.svg:1: not what")
chart_case(edited FILE day24-reduction/chart-rows.svg FROM "519.3" TO "619.3"
  STDERR "day24-reduction/chart-rows.svg:1: not what")
chart_case(missing REMOVE day45-occupancy/chart-curve.svg
  STDERR "day45-occupancy/chart-curve.svg:1: not what")
chart_case(no-evidence REMOVE ${day45}
  STDERR "day45-occupancy/occupancy.cu:1: its `Verified:` line names no")
chart_case(unverified FILE day45-occupancy/occupancy.cu FROM
  "Test GPU, compute capability 9.0, driver 580.1.2,\n//   CUDA 13.0, 2026-01-02,\n//   ${day45}"
  TO "UNVERIFIED" STDERR "names no evidence file that is there ('')")
chart_case(no-peak FILE ${day24} FROM "peak 1000 GB/s" TO "peak n/a"
  STDERR "${day24}:1: names no peak")
chart_case(no-table FILE ${day25} FROM "How it grows" TO "Growth"
  STDERR "day25-reduction/chart-growth.svg:1: no table of ${day25} draws it")
chart_case(empty-table FILE ${day24} FROM "leaves\ncopy" TO "leaves\n\ncopy"
  STDERR "${day24}:1: no table below a line '^row")
chart_case(odd-row FILE ${day24} FROM "  519.3" TO "    n/a"
  STDERR "${day24}:1: cannot read the row 'v4 + shuffle + atomic")
chart_case(odd-cost FILE ${day77} FROM "0.0762    0.2%" TO "0.0762   0.2 %"
  STDERR "${day77}:1: cannot read the row 'dsm, cluster of 2")
chart_case(no-growth FILE ${day25} FROM "\n2^16*" TO "\nn = 65536"
  STDERR "${day25}:1: cannot read the table 'How it grows'")
chart_case(no-curve FILE ${day45} FROM "\ntlp1-b1  " TO "\nTLP1-B1  "
  STDERR "${day45}:1: cannot read the table 'Table 3'")
chart_case(odd-growth FILE ${day25} FROM "0.0500    836" TO "0.0500"
  STDERR "${day25}:1: cannot read the row '2^20")
chart_case(odd-curve FILE ${day45} FROM "    690 #" TO "  690.5 #"
  STDERR "${day45}:1: cannot read the row 'vec2-b1")
chart_case(odd-clusters FILE ${day77} FROM "does not fit: 512" TO "too long: 512"
  STDERR "${day77}:1: cannot read the row 'one block a row, row in shared memory")
page_case(chart.writes REMOVE day45-occupancy/chart-curve.svg
  STDOUT "wrote day45-occupancy/chart-curve.svg"
  TREE "${tests}/chart/tree" SCRIPT chart)
