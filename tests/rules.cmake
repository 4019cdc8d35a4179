# rules.cmake: what the two engines share that hold rules against machine code
# and against profiles. Each defines rule(), which puts its id into the global
# property RULES.

# A rule that must be broken here: it shows that the rule can fail.
function(broken_rule id)
  get_property(before GLOBAL PROPERTY page_faults)
  rule(${id} ${ARGN})
  get_property(after GLOBAL PROPERTY page_faults)
  set_property(GLOBAL PROPERTY page_faults "${before}")
  if(before STREQUAL after)
    string(REPLACE ";" " " text "${ARGN}")
    fault("${id}: must be broken, but holds: ${text}")
  endif()
endfunction()

# rules_hold(count what where): the end of either engine: an error where there
# is nothing to hold, or where a rule is broken.
function(rules_hold count what where)
  get_property(rules GLOBAL PROPERTY RULES)
  list(LENGTH rules checks)
  list(REMOVE_DUPLICATES rules)
  list(LENGTH rules rules)
  if(checks EQUAL 0 OR count EQUAL 0)
    message(FATAL_ERROR "${count} ${what} and ${rules} rules: proves nothing")
  endif()
  stop_on_faults("${where} breaks these rules")
  message("${rules} rules (${checks} checks) hold for the ${count} ${what} of "
    "${where}")
endfunction()
