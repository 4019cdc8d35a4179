// expect: 5: is the start of the other
// snippet: v1
int a;
// end snippet
// snippet: v1-modulo
int b;
// end snippet
