// expect: 2: never ends
// snippet: open
int a;
