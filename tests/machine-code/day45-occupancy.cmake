# Machine code of day 45: where the loads stand. @1 is the template argument,
# kItems. Each item loads an element of x and one of y.
# No row: pointerChase fillLinks fillValues

# One check a tile: on the path of a full tile all loads come before the first
# multiply, without a predicate and in one basic block.
foreach(kernel scaleAdd scaleAddBounded)
  rule(loads-before-fma KERNEL ${kernel} BLOCK "LDG" UNTIL "FFMA"
    EQUAL "2 * @1")
endforeach()
rule(loads-before-fma KERNEL scaleAddVec BLOCK "LDG[^ ]*\\.128" UNTIL "FFMA"
  EQUAL "2 * @1")
foreach(items 1 2 4 8)
  rule(loads-before-fma KERNEL scaleAdd TEMPLATE ${items}
    COUNT "FFMA" AT_LEAST ${items})
endforeach()

# What the bound of ilp8-lb asks for, the compiler does without it too.
measure(instructions KERNEL scaleAdd TEMPLATE 8 COUNT ".")
rule(bound-changes-nothing KERNEL scaleAddBounded COUNT "."
  EQUAL ${instructions})

# A check on every element: fewer than that, however they are counted.
rule(guarded-loads-are-split KERNEL scaleAddGuarded TEMPLATE 8
  RUN "LDG" UNTIL "FFMA" AT_MOST "2 * @1 - 1")

rule(vec-loads-128-bit KERNEL scaleAddVec COUNT "LDG[^ ]*\\.128" EQUAL "2 * @1")
rule(vec-loads-128-bit KERNEL copy16 COUNT "LDG[^ ]*\\.128" AT_LEAST 1)
foreach(kernel scaleAdd scaleAddBounded scaleAddGuarded)
  rule(vec-loads-128-bit KERNEL ${kernel} COUNT "LDG[^ ]*\\.128" EQUAL 0)
endforeach()

rule(no-local-memory KERNEL ALL COUNT "LDL|STL" EQUAL 0)
