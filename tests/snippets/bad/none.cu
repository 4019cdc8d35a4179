// expect: 1: no snippet in this file
int a;
