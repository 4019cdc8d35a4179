# evidence-file.cmake: the form of an evidence file, for whoever writes or
# reads one. Lines `# key: value`, an empty line, then the body: exactly what
# was printed. evidence/README.md says what each key means.
#
# Kinds, by file name: evidence/<folder>/<kind>-<date>-<gpu>[-sm_XX].<txt|csv>
# with kind run, profile, sanitizer, mutants or hostile. All kinds have the
# same keys; in another kind than run, `n/a` may stand for a key that has no
# one value there (cubin-sha256, say, where many programs were compiled).
include("${CMAKE_CURRENT_LIST_DIR}/text.cmake")

# The repository that a script works on, where it was given none.
cmake_path(GET CMAKE_CURRENT_LIST_DIR PARENT_PATH this_repository)
default(ROOT "${this_repository}")

set(evidence_schema 1)
set(evidence_keys
  schema lesson source source-sha256 cubin-sha256 compile-command run-command
  nvcc-version host-compiler os driver cuda-driver-version gpu
  compute-capability sms ecc mig clocks power-limit git-commit git-dirty
  date-utc exit-code body-sha256)

# lessons_listed(root result): the lessons that CMakeLists.txt lists, as
# 'folder/file.cu|arch'.
function(lessons_listed root result_name)
  file(STRINGS "${root}/CMakeLists.txt" lines REGEX "^lesson\\(")
  set(lessons "")
  foreach(line IN LISTS lines)
    if(line MATCHES "^lesson\\(([^ ]+\\.cu) ([0-9]+)\\)")
      list(APPEND lessons "${CMAKE_MATCH_1}|${CMAKE_MATCH_2}")
    endif()
  endforeach()
  if(lessons STREQUAL "")
    message(FATAL_ERROR "${root}/CMakeLists.txt lists no lesson")
  endif()
  set(${result_name} "${lessons}" PARENT_SCOPE)
endfunction()

# lesson_parts(lesson): splits 'folder/file.cu|arch' into `folder`, `name`,
# `arch` and `source`, the path of the file, in the caller.
macro(lesson_parts lesson)
  if(NOT "${lesson}" MATCHES "^([^|]+)/([^|/]+)\\.cu\\|([0-9]+)$")
    message(FATAL_ERROR "LESSONS: '${lesson}' is not folder/file.cu|arch")
  endif()
  set(folder "${CMAKE_MATCH_1}")
  set(name "${CMAKE_MATCH_2}")
  set(arch "${CMAKE_MATCH_3}")
  set(source "${folder}/${name}.cu")
endmacro()

# cubin_sha256(path name hash): of the machine code of NAME.cu. nvcc writes two
# hashes of eight digits, one of the folder, into names of internal linkage:
# the names are taken without them, and where there are any it is the hash of
# the file's bytes in hexadecimal.
function(cubin_sha256 path name hash_name)
  string(LENGTH "${name}_cu" length)
  string(HEX "_${length}_${name}_cu_" middle)
  set(digit "[36][0-9]")
  set(digits "${digit}${digit}${digit}${digit}")
  string(APPEND digits "${digits}")
  file(READ "${path}" bytes HEX)
  string(REGEX REPLACE "${digits}(${middle})${digits}" "\\1" named "${bytes}")
  if(named STREQUAL bytes)
    file(SHA256 "${path}" hash)
  else()
    string(SHA256 hash "${named}")
  endif()
  set(${hash_name} "${hash}" PARENT_SCOPE)
endfunction()

# gpu_slug(gpu slug): "NVIDIA H200" becomes "nvidia-h200".
function(gpu_slug gpu slug_name)
  string(TOLOWER "${gpu}" slug)
  string(REGEX REPLACE "[^a-z0-9]+" "-" slug "${slug}")
  string(REGEX REPLACE "^-|-$" "" slug "${slug}")
  set(${slug_name} "${slug}" PARENT_SCOPE)
endfunction()

# evidence_tree(root): what the repository says of itself, into ev_git-commit
# and ev_git-dirty. Where there is no .git: GIT_COMMIT and GIT_DIRTY (yes or
# no), variables or environment.
function(evidence_tree root)
  foreach(name IN ITEMS GIT_COMMIT GIT_DIRTY)
    if(NOT DEFINED ${name})
      set(${name} "$ENV{${name}}")
    endif()
  endforeach()
  if("${GIT_COMMIT}" STREQUAL "" AND EXISTS "${root}/.git")
    find_program(GIT git)
    execute_process(COMMAND ${GIT} -C "${root}" rev-parse HEAD
      OUTPUT_VARIABLE GIT_COMMIT OUTPUT_STRIP_TRAILING_WHITESPACE)
    execute_process(
      COMMAND ${GIT} -C "${root}" status --porcelain --untracked-files=no
      OUTPUT_VARIABLE changed)
    set(GIT_DIRTY yes)
    if(changed STREQUAL "")
      set(GIT_DIRTY no)
    endif()
  endif()
  string(LENGTH "${GIT_COMMIT}" length)
  if(NOT GIT_COMMIT MATCHES "^[0-9a-f]+$" OR NOT length EQUAL 40 OR
      NOT GIT_DIRTY MATCHES "^(yes|no)$")
    message(FATAL_ERROR
      "evidence names the commit it was made from, and there is no .git here: "
      "pass -DGIT_COMMIT=<40 digits> and -DGIT_DIRTY=<yes or no>")
  endif()
  set(ev_git-commit "${GIT_COMMIT}" PARENT_SCOPE)
  set(ev_git-dirty "${GIT_DIRTY}" PARENT_SCOPE)
endfunction()

# evidence_toolkit(nvcc work): ev_nvcc-version and ev_host-compiler, the host
# compiler that this nvcc really uses. Works in folder `work`.
function(evidence_toolkit nvcc work)
  execute_process(COMMAND "${nvcc}" --version
    OUTPUT_VARIABLE said RESULT_VARIABLE status)
  if(NOT status EQUAL 0 OR NOT said MATCHES "V([0-9]+\\.[0-9]+\\.[0-9]+)")
    message(FATAL_ERROR
      "'${nvcc} --version' names no version; pass -DNVCC=/path/to/nvcc")
  endif()
  set(ev_nvcc-version "${CMAKE_MATCH_1}" PARENT_SCOPE)
  file(MAKE_DIRECTORY "${work}")
  file(WRITE "${work}/host.cu" [=[
#if defined(__clang__)
host_compiler "clang" __clang_version__
#elif defined(__GNUC__)
host_compiler "gcc" __VERSION__
#elif defined(_MSC_VER)
host_compiler "msvc" _MSC_FULL_VER
#endif
]=])
  execute_process(COMMAND "${nvcc}" -E host.cu WORKING_DIRECTORY "${work}"
    OUTPUT_VARIABLE said ERROR_QUIET)
  string(REGEX MATCH "\nhost_compiler [^\n]*" said "${said}")
  string(REGEX REPLACE "\nhost_compiler |\"" "" said "${said}")
  string(STRIP "${said}" said)
  if(said STREQUAL "")
    message(FATAL_ERROR "'${nvcc} -E' does not tell the host compiler")
  endif()
  set(ev_host-compiler "${said}" PARENT_SCOPE)
endfunction()

# evidence_machine(nvidia_smi): what nvidia-smi says of the GPU that CUDA
# takes first, into ev_gpu, ev_compute-capability, ev_driver,
# ev_cuda-driver-version, ev_ecc, ev_mig, ev_clocks, ev_power-limit, and
# ev_os. nvidia-smi counts in the order of the bus, so run what is recorded
# with CUDA_DEVICE_ORDER=PCI_BUS_ID.
function(evidence_machine nvidia_smi)
  set(id 0)
  if("$ENV{CUDA_VISIBLE_DEVICES}" MATCHES "^([^,]+)")
    set(id "${CMAKE_MATCH_1}")
  endif()
  set(fields name compute_cap driver_version ecc.mode.current mig.mode.current
    clocks.current.sm clocks.max.sm clocks.current.memory clocks.max.memory
    power.limit)
  foreach(field IN LISTS fields)
    execute_process(
      COMMAND "${nvidia_smi}" -i ${id} --query-gpu=${field}
        --format=csv,noheader
      OUTPUT_VARIABLE said RESULT_VARIABLE status ERROR_VARIABLE complaint)
    string(STRIP "${said}" said)
    if(NOT status EQUAL 0 OR said STREQUAL "" OR said MATCHES "[\n;]")
      message(FATAL_ERROR
        "nvidia-smi does not tell ${field} of GPU ${id}: evidence is recorded "
        "on a machine with an NVIDIA GPU and its driver.\n${said}${complaint}")
    endif()
    if(said MATCHES "^\\[?N/A\\]?$|Not Supported|Unknown")
      set(said "n/a")
    endif()
    set(smi_${field} "${said}")
  endforeach()
  execute_process(COMMAND "${nvidia_smi}" OUTPUT_VARIABLE said)
  if(NOT said MATCHES "CUDA Version *: *([0-9]+\\.[0-9]+)")
    message(FATAL_ERROR "nvidia-smi does not tell its CUDA version:\n${said}")
  endif()
  set(ev_cuda-driver-version "${CMAKE_MATCH_1}" PARENT_SCOPE)
  set(ev_gpu "${smi_name}" PARENT_SCOPE)
  set(ev_compute-capability "${smi_compute_cap}" PARENT_SCOPE)
  set(ev_driver "${smi_driver_version}" PARENT_SCOPE)
  set(ev_ecc "${smi_ecc.mode.current}" PARENT_SCOPE)
  set(ev_mig "${smi_mig.mode.current}" PARENT_SCOPE)
  set(ev_clocks "SM ${smi_clocks.current.sm} now, ${smi_clocks.max.sm} at most; memory ${smi_clocks.current.memory} now, ${smi_clocks.max.memory} at most" PARENT_SCOPE)
  set(ev_power-limit "${smi_power.limit}" PARENT_SCOPE)
  set(os "${CMAKE_HOST_SYSTEM_NAME}")
  if(EXISTS /etc/os-release)
    file(STRINGS /etc/os-release lines REGEX "^PRETTY_NAME=")
    string(REGEX REPLACE "^PRETTY_NAME=|\"" "" os "${lines}")
  endif()
  set(ev_os "${os}" PARENT_SCOPE)
endfunction()

# evidence_start(): the values that all files of one recording share: of the
# repository ROOT, of NVCC and of the machine (NVIDIA_SMI), and `slug` and
# `today` of the file names. Works in folder WORK.
macro(evidence_start)
  evidence_tree("${ROOT}")
  evidence_toolkit("${NVCC}" "${WORK}/host")
  evidence_machine("${NVIDIA_SMI}")
  gpu_slug("${ev_gpu}" slug)
  set(ENV{CUDA_DEVICE_ORDER} PCI_BUS_ID)  # the order of nvidia-smi
  string(TIMESTAMP today "%Y-%m-%d" UTC)
endmacro()

# evidence_write(path body_file): writes the header from the variables
# ev_<key> of the caller and the bytes of body_file behind it. Sets schema and
# body-sha256 itself; every other key must be there.
function(evidence_write path body_file)
  set(ev_schema ${evidence_schema})
  file(SHA256 "${body_file}" ev_body-sha256)
  set(header "")
  foreach(key IN LISTS evidence_keys)
    if("${ev_${key}}" STREQUAL "")
      message(FATAL_ERROR "evidence: no value for '${key}' of ${path}")
    endif()
    string(APPEND header "\n# ${key}: ${ev_${key}}")
  endforeach()
  string(SUBSTRING "${header}" 1 -1 header)
  file(CONFIGURE OUTPUT "${body_file}.header" CONTENT "@header@\n\n" @ONLY
    NEWLINE_STYLE LF)
  cmake_path(GET path PARENT_PATH folder)
  file(MAKE_DIRECTORY "${folder}")
  execute_process(
    COMMAND ${CMAKE_COMMAND} -E cat "${body_file}.header" "${body_file}"
    OUTPUT_FILE "${path}.new" COMMAND_ERROR_IS_FATAL ANY)
  file(RENAME "${path}.new" "${path}")
  file(REMOVE "${body_file}.header")
endfunction()

# evidence_sms(output): ev_sms, from a lesson's first line in variable `output`.
macro(evidence_sms output_name)
  set(ev_sms "n/a")
  if(${output_name} MATCHES ", ([0-9]+) SMs")
    set(ev_sms "${CMAKE_MATCH_1}")
  endif()
endmacro()

# evidence_record(file body_file): writes evidence `file`, a path below ROOT,
# of the lesson that lesson_parts has split, in place of older ones. What
# differs from kind to kind the caller sets: ev_cubin-sha256,
# ev_compile-command, ev_run-command, ev_sms, and ev_date-utc where it is not
# now.
function(evidence_record file body_file)
  file(SHA256 "${ROOT}/${source}" ev_source-sha256)
  set(ev_lesson "${folder}/${name}")
  set(ev_source "${source}")
  set(ev_exit-code 0)
  if(NOT DEFINED ev_date-utc)
    string(TIMESTAMP ev_date-utc "%Y-%m-%dT%H:%M:%SZ" UTC)
  endif()
  evidence_write("${ROOT}/${file}" "${body_file}")
  evidence_replaces("${ROOT}/${file}")
  message("  wrote ${file}")
endfunction()

# evidence_replaces(path): removes the older files that a new file `path`
# replaces: the same kind, GPU and architecture, another date.
function(evidence_replaces path)
  if(path MATCHES "^(.*/[a-z]+-)[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9](-[^/]*)$")
    set(pattern "${CMAKE_MATCH_1}????-??-??${CMAKE_MATCH_2}")
    file(GLOB older "${pattern}")
    list(REMOVE_ITEM older "${path}")
    foreach(file IN LISTS older)
      file(REMOVE "${file}")
    endforeach()
  endif()
endfunction()

# evidence_read(path shown ok): reads a file's header into in_<key> and its
# body into in_body, after clearing both. Faults of form are reported.
function(evidence_read path shown ok_name)
  foreach(key IN LISTS evidence_keys)
    set(in_${key} "")
    set(in_${key} "" PARENT_SCOPE)
  endforeach()
  set(in_body "" PARENT_SCOPE)
  set(${ok_name} FALSE PARENT_SCOPE)
  read_text("${path}" "${shown}" text ok)
  if(NOT ok)
    return()
  endif()
  set(at 0)
  set(line "#")
  while(NOT text STREQUAL "" AND NOT line STREQUAL "")
    take_line(text line)
    math(EXPR at "${at} + 1")
    if(line MATCHES "^# ([a-z0-9-]+): (.*)$")
      set(key "${CMAKE_MATCH_1}")
      set(value "${CMAKE_MATCH_2}")
      if(NOT key IN_LIST evidence_keys)
        fault("${shown}:${at}: unknown key '${key}'; record the file again")
        set(ok FALSE)
      elseif(NOT "${in_${key}}" STREQUAL "")
        fault("${shown}:${at}: key '${key}' a second time; record the file again")
        set(ok FALSE)
      elseif(value MATCHES "^[ \t]*$|TODO|TBD|FIXME|XXX|UNVERIFIED|[Uu]nknown|[Pp]laceholder|^[?.-]+$|^<.*>$")
        fault("${shown}:${at}: '${value}' is no value for '${key}'; record the file again")
        set(ok FALSE)
      endif()
      set(in_${key} "${value}")
      set(in_${key} "${value}" PARENT_SCOPE)
    elseif(NOT line STREQUAL "")
      fault("${shown}:${at}: not a line '# key: value', nor the empty line before the output; record the file again")
      return()
    endif()
  endwhile()
  foreach(key IN LISTS evidence_keys)
    if("${in_${key}}" STREQUAL "")
      fault("${shown}:1: no key '${key}'; record the file again")
      set(ok FALSE)
    endif()
  endforeach()
  set(in_body "${text}" PARENT_SCOPE)
  set(${ok_name} ${ok} PARENT_SCOPE)
endfunction()
