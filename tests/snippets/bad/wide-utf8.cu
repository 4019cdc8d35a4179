// expect: 4: 80 columns wide
// snippet: wide
    int a;
    // üüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüü
// end snippet
