// expect: 2: bad snippet name
// snippet: 7-load
int a;
// end snippet
