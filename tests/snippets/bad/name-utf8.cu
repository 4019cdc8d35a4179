// expect: 2: bad snippet name
// snippet: über
int a;
// end snippet
