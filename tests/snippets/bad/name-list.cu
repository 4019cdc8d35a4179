// expect: 2: bad snippet name
// snippet: a;b
int a;
// end snippet
