// expect: 2: carriage return
// snippet: one
int a;
// end snippet
