// expect: 3: never ends
// expect: 5: almost a snippet marker
// snippet: one
int a;
// end snippet one
