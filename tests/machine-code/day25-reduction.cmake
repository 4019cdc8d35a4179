# Machine code of day 25, in the order of the ladder.
# No row: doNothing fillInput countDifferences
set(shuffling "reduceShuffleTail;reduceUnrolled;reduceVectorized;\
reduceVectorizedAtomic;reduceLastBlock;reduceInFlight")
set(load16 "LDG[^ ]*\\.128")
set(streaming16 "LDG[^ ]*\\.EF[^ ]*\\.128")  # __ldcs: evict first

# The tail of v4 and v4c runs in shared memory, that of v5 to v10 in registers.
foreach(kernel IN LISTS shuffling)
  rule(v5-to-v10-shuffle KERNEL ${kernel} COUNT "SHFL" AT_LEAST 5)
endforeach()
foreach(kernel reduceSequentialTwoLoads reduceCascaded)
  rule(v5-to-v10-shuffle KERNEL ${kernel} COUNT "SHFL" EQUAL 0)
endforeach()

# v5's tree is a loop around a barrier; where the block size is a template
# argument there is none.
rule(v5-tree-is-a-loop KERNEL reduceShuffleTail
  LOOPS_AROUND "BAR\\.SYNC" AT_LEAST 1)
foreach(kernel reduceUnrolled reduceVectorized reduceVectorizedAtomic
    reduceLastBlock reduceInFlight)
  rule(v6-tree-has-no-loop KERNEL ${kernel}
    LOOPS_AROUND "BAR\\.SYNC" EQUAL 0)
endforeach()

# 16-byte loads from v7 on; before, one float a load.
foreach(kernel copyFloats reduceVectorized reduceVectorizedAtomic
    reduceLastBlock reduceInFlight)
  rule(v7-loads-128-bit KERNEL ${kernel} COUNT "${load16}" AT_LEAST 1)
endforeach()
foreach(kernel reduceSequentialTwoLoads reduceCascaded reduceShuffleTail
    reduceUnrolled)
  rule(v7-loads-128-bit KERNEL ${kernel} COUNT "${load16}" EQUAL 0)
endforeach()

# v10: reduceInFlight<threads, loads> issues its loads before the first add.
rule(v10-loads-before-add KERNEL reduceInFlight
  BLOCK "${streaming16}" UNTIL "FADD" AT_LEAST "@2")

# v9 and v10: a fence before the ticket (release), and L1 emptied after it
# (acquire). v8a's atomic orders nothing.
foreach(kernel reduceLastBlock reduceInFlight)
  rule(v9-ordered-ticket KERNEL ${kernel} COUNT "MEMBAR[^ ]*\\.GPU" EQUAL 1)
  rule(v9-ordered-ticket KERNEL ${kernel} COUNT "CCTL\\.IVALL" EQUAL 1)
endforeach()
rule(v9-ordered-ticket KERNEL reduceVectorizedAtomic
  COUNT "MEMBAR|CCTL" EQUAL 0)

# The last block has 16 partials a lane under way before it adds the first.
foreach(kernel reduceLastBlock reduceInFlight)
  rule(v9-partials-in-flight KERNEL ${kernel}
    RUN "LDG[^ ]*\\.STRONG\\.GPU" UNTIL "FADD" EQUAL 16)
endforeach()

rule(no-local-memory KERNEL ALL COUNT "LDL|STL" EQUAL 0)
