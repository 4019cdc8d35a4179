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
