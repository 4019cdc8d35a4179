// expect: 3: almost a snippet marker
// expect: 5: ends nothing
// snippet:
int a;
// end snippet
