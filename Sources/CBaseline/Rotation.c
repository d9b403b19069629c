#include "Baseline.h"

#include <openssl/evp.h>
#include <openssl/rand.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// What libcrypto itself needs for the pages of a SQLCipher file: authenticate, decrypt, encrypt, authenticate. No page is
// read or written, no number of a page is handled, nothing is compared.

typedef struct {
    unsigned char *pages;
    int64_t count;
    int page_bytes;
    int failed;
} share;

enum { reserve_bytes = 80, vector_bytes = 16 };

static int authenticate(EVP_MAC_CTX *mac, const unsigned char *page, size_t bytes, unsigned char *code) {
    size_t written = 0;
    return EVP_MAC_init(mac, NULL, 0, NULL) && EVP_MAC_update(mac, page, bytes) &&
           EVP_MAC_final(mac, code, &written, 64);
}

static void *work(void *argument) {
    share *own = argument;
    unsigned char key[32] = {1}, code[64];
    OSSL_PARAM params[] = {OSSL_PARAM_construct_utf8_string("digest", "SHA512", 0), OSSL_PARAM_construct_end()};
    EVP_MAC *algorithm = EVP_MAC_fetch(NULL, "HMAC", NULL);
    EVP_MAC_CTX *mac = EVP_MAC_CTX_new(algorithm);
    EVP_CIPHER_CTX *decryptor = EVP_CIPHER_CTX_new(), *encryptor = EVP_CIPHER_CTX_new();
    int usable = own->page_bytes - reserve_bytes, written = 0;
    int ok = EVP_MAC_init(mac, key, sizeof key, params) &&
             EVP_CipherInit_ex(decryptor, EVP_aes_256_cbc(), NULL, key, NULL, 0) &&
             EVP_CipherInit_ex(encryptor, EVP_aes_256_cbc(), NULL, key, NULL, 1);
    EVP_CIPHER_CTX_set_padding(decryptor, 0);
    EVP_CIPHER_CTX_set_padding(encryptor, 0);
    for (int64_t index = 0; index < own->count && ok; index++) {
        unsigned char *page = own->pages + index * own->page_bytes, *vector = page + usable;
        ok = authenticate(mac, page, (size_t)usable + vector_bytes, code) &&
             EVP_CipherInit_ex(decryptor, NULL, NULL, NULL, vector, -1) &&
             EVP_CipherUpdate(decryptor, page, &written, page, usable) &&
             EVP_CipherInit_ex(encryptor, NULL, NULL, NULL, vector, -1) &&
             EVP_CipherUpdate(encryptor, page, &written, page, usable) &&
             authenticate(mac, page, (size_t)usable + vector_bytes, code);
    }
    own->failed = !ok;
    EVP_MAC_CTX_free(mac);
    EVP_MAC_free(algorithm);
    EVP_CIPHER_CTX_free(decryptor);
    EVP_CIPHER_CTX_free(encryptor);
    return NULL;
}

int baseline_reencrypt(void *pages, int64_t count, int page_bytes, int threads) {
    share shares[64];
    pthread_t others[64];
    int failed = 0;
    if (threads < 1 || threads > 64) return -1;
    for (int index = 0; index < threads; index++) {
        int64_t first = count * index / threads, end = count * (index + 1) / threads;
        shares[index] = (share){(unsigned char *)pages + first * page_bytes, end - first, page_bytes, 0};
        if (pthread_create(&others[index], NULL, work, &shares[index]) != 0) return -1;
    }
    for (int index = 0; index < threads; index++) {
        pthread_join(others[index], NULL);
        failed |= shares[index].failed;
    }
    return failed ? -1 : 0;
}

int baseline_rekey(const char *path, const char *keyspec, const char *new_keyspec) {
    baseline *db = baseline_open(path, keyspec);
    if (db == NULL) return -1;
    char sql[256];
    snprintf(sql, sizeof sql, "PRAGMA rekey = \"%s\"", new_keyspec);
    int code = baseline_execute(db, sql);
    baseline_close(db);
    return code;
}

int baseline_export(const char *path, const char *keyspec, const char *target, const char *new_keyspec) {
    baseline *db = baseline_open(path, keyspec);
    if (db == NULL) return -1;
    char sql[1024];
    snprintf(sql, sizeof sql,
             "ATTACH '%s' AS copy KEY \"%s\"; SELECT sqlcipher_export('copy'); DETACH copy", target, new_keyspec);
    int code = baseline_execute(db, sql);
    baseline_close(db);
    return code;
}
