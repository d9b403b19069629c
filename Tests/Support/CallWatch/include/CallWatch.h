#ifndef CALL_WATCH_H
#define CALL_WATCH_H

/* Calls `report` with what a thread is about to do, when that is to start a process or to derive a key with as much work
   as a real key takes. This target defines the functions of the C library and libcrypto that do so; the definitions in
   the program come before those of the libraries. */
void call_watch(void (*report)(const char *what));

#endif
