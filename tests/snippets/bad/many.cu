// expect: 8: bad snippet name
// expect: 11: stands at
// expect: 14: is empty
// expect: 17: tab inside
// snippet: one
int a;
// end snippet
// snippet: Two
int a;
// end snippet
// snippet: one
int a;
// end snippet
// snippet: three
// end snippet
// snippet: four
	int a;
// end snippet
