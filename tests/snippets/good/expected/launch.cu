kernel<<<blocks, threads, 0, stream>>>(d_in, d_out, n);
  if (a < b && c > d || !e) out << "<b>&amp;</b>";

    deeper();
back();
