int first;

int last;   
