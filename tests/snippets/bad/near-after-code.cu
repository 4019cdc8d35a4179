// expect: 3: almost a snippet marker
// expect: 5: ends nothing
int b;  // snippet: one
int a;
// end snippet
