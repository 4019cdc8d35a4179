x = a[
    b[i]];
// an unbalanced [ and a lone ] and [[ and ]] and [=[ and ]=]
y = c[0;
