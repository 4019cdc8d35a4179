// expect: 2: bad snippet name
// snippet: ../escape
int a;
// end snippet
