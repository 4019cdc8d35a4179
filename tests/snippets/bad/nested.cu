// expect: 4: starts inside 'outer' (line 2)
// snippet: outer
int a;
// snippet: inner
int b;
// end snippet
