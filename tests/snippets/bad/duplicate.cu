// expect: 5: stands at
// snippet: twice
int a;
// end snippet
// snippet: twice
int b;
// end snippet
