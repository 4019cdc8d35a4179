// expect: 5: starts inside 'outer' (line 3)
// expect: 8: ends nothing
// snippet: outer
int a;
// snippet: inner
int b;
// end snippet
// end snippet
