#ifndef COPENSSL_SHIM_H
#define COPENSSL_SHIM_H

#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/core_names.h>
#include <openssl/hmac.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/rsa.h>

// Macros that Swift does not import, and calls whose OSSL_PARAM arrays must point at strings and
// buffers that stay in place until the call returns, which only C can promise in one expression.

static inline void *copenssl_allocate(size_t count) {
    return OPENSSL_malloc(count);
}

static inline void copenssl_wipe_and_free(void *bytes, size_t count) {
    OPENSSL_clear_free(bytes, count);
}

// Whether an error of libcrypto says that memory could not be allocated.
static inline int copenssl_is_out_of_memory(unsigned long code) {
    return ERR_GET_REASON(code) == ERR_R_MALLOC_FAILURE;
}

// Selects OAEP with one digest for the label and the mask.
static inline int copenssl_use_oaep(EVP_PKEY_CTX *context, const char *digest) {
    OSSL_PARAM params[] = {
        OSSL_PARAM_construct_utf8_string(OSSL_PKEY_PARAM_PAD_MODE, OSSL_PKEY_RSA_PAD_MODE_OAEP, 0),
        OSSL_PARAM_construct_utf8_string(OSSL_ASYM_CIPHER_PARAM_OAEP_DIGEST, (char *)digest, 0),
        OSSL_PARAM_construct_utf8_string(OSSL_ASYM_CIPHER_PARAM_MGF1_DIGEST, (char *)digest, 0),
        OSSL_PARAM_construct_end(),
    };
    return EVP_PKEY_CTX_set_params(context, params);
}

// Keys an HMAC context; later calls of EVP_MAC_init with no key start a new message under the same key.
static inline int copenssl_hmac_set_key(EVP_MAC_CTX *context, const char *digest, const unsigned char *key,
                                        size_t key_bytes) {
    OSSL_PARAM params[] = {
        OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, (char *)digest, 0),
        OSSL_PARAM_construct_end(),
    };
    return EVP_MAC_init(context, key, key_bytes, params);
}

static inline int copenssl_hkdf_derive(EVP_KDF_CTX *context, const char *digest, const void *key, size_t key_bytes,
                                       const void *salt, size_t salt_bytes, const void *info, size_t info_bytes,
                                       unsigned char *output, size_t output_bytes) {
    OSSL_PARAM params[] = {
        OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, (char *)digest, 0),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, (void *)key, key_bytes),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_SALT, (void *)salt, salt_bytes),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, (void *)info, info_bytes),
        OSSL_PARAM_construct_end(),
    };
    return EVP_KDF_derive(context, output, output_bytes, params);
}

// The names are written out because the headers of OpenSSL before 3.2 lack them; such a library has no algorithm for the
// context either.
static inline int copenssl_argon2id_derive(EVP_KDF_CTX *context, const void *password, size_t password_bytes,
                                           const void *salt, size_t salt_bytes, const void *pepper, size_t pepper_bytes,
                                           const void *associated, size_t associated_bytes, uint32_t memory_kib,
                                           uint32_t iterations, uint32_t lanes, unsigned char *output,
                                           size_t output_bytes) {
    uint32_t threads = 1;
    OSSL_PARAM params[9], *next = params;
    *next++ = OSSL_PARAM_construct_octet_string("pass", (void *)password, password_bytes);
    *next++ = OSSL_PARAM_construct_octet_string("salt", (void *)salt, salt_bytes);
    if (pepper_bytes > 0) *next++ = OSSL_PARAM_construct_octet_string("secret", (void *)pepper, pepper_bytes);
    if (associated_bytes > 0) *next++ = OSSL_PARAM_construct_octet_string("ad", (void *)associated, associated_bytes);
    *next++ = OSSL_PARAM_construct_uint32("memcost", &memory_kib);
    *next++ = OSSL_PARAM_construct_uint32("iter", &iterations);
    *next++ = OSSL_PARAM_construct_uint32("lanes", &lanes);
    *next++ = OSSL_PARAM_construct_uint32("threads", &threads);
    *next = OSSL_PARAM_construct_end();
    return EVP_KDF_derive(context, output, output_bytes, params);
}

#endif
