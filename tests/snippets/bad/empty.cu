// expect: 2: is empty
// snippet: nothing
// end snippet
