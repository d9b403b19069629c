#ifndef SEEDEDRANDOM_H
#define SEEDEDRANDOM_H

#include <stdint.h>

/* Begins the random numbers of libcrypto again, with those that follow from a seed. Only a simulation links this. */
void seeded_random_begin(uint64_t seed);

#endif
