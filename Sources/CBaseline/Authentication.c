#include "Baseline.h"

#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <pthread.h>
#include <stdint.h>

enum { buffer_bytes = 256 * 1024, most_threads = 64 };

struct share {
    pthread_t thread;
    int64_t messages;
    size_t message_bytes;
    int succeeded;
};

static void *authenticate(void *argument) {
    struct share *share = argument;
    static unsigned char buffer[buffer_bytes];
    unsigned char key[32] = {0x2a}, code[64];
    char digest[] = "SHA512";
    OSSL_PARAM parameters[] = {
        OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0), OSSL_PARAM_construct_end()};
    EVP_MAC *mac = EVP_MAC_fetch(NULL, "HMAC", NULL);
    EVP_MAC_CTX *context = mac == NULL ? NULL : EVP_MAC_CTX_new(mac);
    int succeeded = context != NULL && EVP_MAC_init(context, key, sizeof key, parameters) == 1;
    size_t start = 0;
    for (int64_t message = 0; succeeded && message < share->messages; message++) {
        if (start + share->message_bytes > buffer_bytes) start = 0;
        size_t written = 0;
        succeeded = EVP_MAC_init(context, NULL, 0, NULL) == 1 &&
                    EVP_MAC_update(context, buffer + start, share->message_bytes) == 1 &&
                    EVP_MAC_final(context, code, &written, sizeof code) == 1;
        start += share->message_bytes;
    }
    EVP_MAC_CTX_free(context);
    EVP_MAC_free(mac);
    share->succeeded = succeeded;
    return NULL;
}

int baseline_authenticate(int64_t messages, size_t message_bytes, int threads) {
    struct share shares[most_threads];
    if (threads < 1 || threads > most_threads || message_bytes > buffer_bytes) return -1;
    int started = 0, succeeded = 1;
    for (; started < threads; started++) {
        int64_t part = messages / threads + (started < messages % threads ? 1 : 0);
        shares[started] = (struct share){.messages = part, .message_bytes = message_bytes};
        if (pthread_create(&shares[started].thread, NULL, authenticate, &shares[started]) != 0) break;
    }
    if (started < threads) succeeded = 0;
    for (int index = 0; index < started; index++) {
        pthread_join(shares[index].thread, NULL);
        succeeded = succeeded && shares[index].succeeded;
    }
    return succeeded ? 0 : -1;
}
