// expect: 2: is empty
// snippet: blanks

   
// end snippet
