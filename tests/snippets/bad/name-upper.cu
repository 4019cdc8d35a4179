// expect: 2: bad snippet name
// snippet: Reduce
int a;
// end snippet
