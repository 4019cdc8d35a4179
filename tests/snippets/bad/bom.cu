// snippet: one
int a;
// end snippet
// expect: 1: byte-order mark
