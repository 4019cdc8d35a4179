// expect: 3: tab inside
// snippet: tabs
int a;	// why
// end snippet
