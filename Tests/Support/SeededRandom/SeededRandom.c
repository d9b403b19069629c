/* Random numbers of libcrypto that follow from a seed, so that a simulation makes the same keys, authors and identifiers
   each time. These definitions replace those of libcrypto in the program that links them. */
#include <pthread.h>
#include <stddef.h>

#include "SeededRandom.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t state;

void seeded_random_begin(uint64_t seed) {
    pthread_mutex_lock(&lock);
    state = seed;
    pthread_mutex_unlock(&lock);
}

/* https://prng.di.unimi.it/splitmix64.c */
static uint64_t next(void) {
    uint64_t mixed = state += 0x9e3779b97f4a7c15;
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111eb;
    return mixed ^ (mixed >> 31);
}

int RAND_bytes(unsigned char *bytes, int count) {
    pthread_mutex_lock(&lock);
    for (int index = 0; index < count; index++) bytes[index] = (unsigned char)next();
    pthread_mutex_unlock(&lock);
    return 1;
}

int RAND_priv_bytes(unsigned char *bytes, int count) { return RAND_bytes(bytes, count); }
