for (int i = 0; i < n; ++i) { a[i] = b[i]; };;
auto f = [](int x) { return x; };  // "a;b;c"
