// expect: 2: bad snippet name
// snippet: warp_reduce
int a;
// end snippet
