// expect: 3: ends nothing
int a;
// end snippet
// snippet: one
int b;
// end snippet
