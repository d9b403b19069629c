#ifndef CQRCODE_H
#define CQRCODE_H

#include <stddef.h>

/* Why no symbol was made: the library is not installed, or the text does not fit. */
enum { cqrcode_no_library = -1, cqrcode_failed = -2 };

/* Makes the QR code of a text, with the error correction M (15 %).

   modules gets one byte for each module, row by row: 1 for a dark one. Returns the number of modules of a side, or one of
   the values above; also cqrcode_failed when the capacity does not suffice. */
int cqrcode_encode(const char *text, unsigned char *modules, size_t capacity);

#endif
