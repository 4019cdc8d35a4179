// expect: 3: carriage return
// snippet: one
int a;int b;
// end snippet
