// Text that trips scripts: every region must come out byte for byte.
// snippet: semicolons
for (int i = 0; i < n; ++i) { a[i] = b[i]; };;
auto f = [](int x) { return x; };  // "a;b;c"
// end snippet

  // snippet: brackets
  x = a[
      b[i]];
  // an unbalanced [ and a lone ] and [[ and ]] and [=[ and ]=]
  y = c[0;
  // end snippet

// snippet: backslashes
#define SUM(a, b) \
  ((a) +          \
   (b))
const char* path = "C:\\new\\";  // ends with \
// end snippet

// snippet: variables
// ${X} @X@ $ENV{HOME} $<CONFIG> @text@ ${text} $(x) %PATH% #cmakedefine X
#cmakedefine X
#cmakedefine01 Y
// end snippet

// snippet: launch
    kernel<<<blocks, threads, 0, stream>>>(d_in, d_out, n);
      if (a < b && c > d || !e) out << "<b>&amp;</b>";

        deeper();
    back();
// end snippet

// snippet: utf8
// Größe µs × π → ✓ 日本語
// end snippet

// snippet: wide-enough
    // µµµµµµµµµµµµµµµµµµµµµµµµµµµµµµµµµµµµµµµµµµµµµµµµµµµµµµµµµµµµµµµµµµµµµµµµµµµµ
// end snippet

		// a tab outside every region is nobody's business
// The word snippet in prose, "end snippet" in quotes and a snippet: in words
// are not markers.
// snippet: quotes
a = "quoted \"twice\"" + 'c' + R"x(raw )" ")x"; // `tick` ```fence``` #hash
// <!-- end --> | table | --- ~~~ :start-after: --8<-- "file.cu"
// end snippet

// snippet: blank-ends


int first;
  
int last;   

// end snippet
// snippet: final
int noNewlineAfterTheMarker;
// end snippet