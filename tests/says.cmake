# says(output text result): whether `text` stands in `output`, as it is or
# with runs of blanks and line ends taken as one blank: CMake wraps long
# messages, and where it does depends on the paths in them.
function(says output text result)
  string(FIND "${output}" "${text}" at)
  if(at EQUAL -1)
    string(REGEX REPLACE "[ \n]+" " " output "${output}")
    string(FIND "${output}" "${text}" at)
  endif()
  if(at EQUAL -1)
    set(${result} FALSE PARENT_SCOPE)
  else()
    set(${result} TRUE PARENT_SCOPE)
  endif()
endfunction()

# must_report(what status output text): `what` must have failed and said
# `text`; with an empty text it must have passed.
function(must_report what status output text)
  if(text STREQUAL "")
    if(NOT status EQUAL 0)
      message(SEND_ERROR "${what} must pass, status ${status}:\n${output}")
    endif()
    return()
  endif()
  says("${output}" "${text}" reported)
  if(status EQUAL 0 OR NOT reported)
    message(SEND_ERROR
      "${what}: status ${status}, and no word of `${text}`:\n${output}")
  endif()
endfunction()
