// expect: 3: tab inside
// snippet: tabs
	int a;
int b;
// end snippet
