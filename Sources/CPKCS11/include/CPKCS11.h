#ifndef CPKCS11_H
#define CPKCS11_H

#include <stdbool.h>
#include <stddef.h>

/* The calls of a PKCS#11 module (Cryptoki 2.40, https://docs.oasis-open.org/pkcs11/pkcs11-base/v2.40/) that keyslots need.
   A module is a shared library that the operator names; nothing is linked with one. Results are CK_RV, 0 for success. */

typedef struct cpkcs11_module cpkcs11_module;

/* Fixed texts of Cryptoki, padded with blanks. */
typedef struct {
    char label[32];
    char manufacturer[32];
    char model[16];
    char serial[16];
    unsigned long flags;
} cpkcs11_token;

enum {
    cpkcs11_login_required = 0x4,
    cpkcs11_user_pin_initialized = 0x8,
    cpkcs11_protected_path = 0x100,
    cpkcs11_token_initialized = 0x400,
    cpkcs11_pin_final_try = 0x20000,
    cpkcs11_pin_locked_flag = 0x40000,
};

enum {
    cpkcs11_ok = 0,
    cpkcs11_arguments_bad = 0x7,
    cpkcs11_device_removed = 0x32,
    cpkcs11_mechanism_invalid = 0x70,
    cpkcs11_mechanism_param_invalid = 0x71,
    cpkcs11_pin_incorrect = 0xa0,
    cpkcs11_pin_invalid = 0xa1,
    cpkcs11_pin_len_range = 0xa2,
    cpkcs11_pin_expired = 0xa3,
    cpkcs11_pin_locked = 0xa4,
    cpkcs11_token_not_present = 0xe0,
    cpkcs11_user_already_logged_in = 0x100,
};

enum { cpkcs11_class_public = 2, cpkcs11_class_private = 3, cpkcs11_class_secret = 4 };
enum { cpkcs11_key_rsa = 0, cpkcs11_key_aes = 0x1f };
enum { cpkcs11_attribute_label = 0x3, cpkcs11_attribute_id = 0x102, cpkcs11_attribute_modulus = 0x120,
       cpkcs11_attribute_exponent = 0x122 };

/* Loads and initializes a module, which stays loaded. NULL where it cannot be: `reason` then is a text, or NULL and
   `result` what the module returned. */
cpkcs11_module *cpkcs11_load(const char *path, char *reason, size_t reason_bytes, unsigned long *result);

/* The slots with a token. `count` is the room before, and the number of slots after. */
unsigned long cpkcs11_slots(cpkcs11_module *module, unsigned long *slots, unsigned long *count);
unsigned long cpkcs11_token_info(cpkcs11_module *module, unsigned long slot, cpkcs11_token *token);

unsigned long cpkcs11_open(cpkcs11_module *module, unsigned long slot, unsigned long *session);
void cpkcs11_close(cpkcs11_module *module, unsigned long session);
/* As the user. `pin` is NULL for a token with a keypad of its own. */
unsigned long cpkcs11_login(cpkcs11_module *module, unsigned long session, const void *pin, unsigned long pin_bytes);
void cpkcs11_logout(cpkcs11_module *module, unsigned long session);

/* Finds objects of a class and type of key, with this label and identifier where they are not NULL. `count` is the room
   before, and the number of objects after. */
unsigned long cpkcs11_find(
    cpkcs11_module *module, unsigned long session, unsigned long object_class, unsigned long key_type, const char *label,
    const void *identifier, unsigned long identifier_bytes, unsigned long *objects, unsigned long *count);

/* Reads an attribute. `bytes` is the room before, and its length after. */
unsigned long cpkcs11_attribute(
    cpkcs11_module *module, unsigned long session, unsigned long object, unsigned long type, void *value,
    unsigned long *bytes);

/* AES-GCM with a tag of 128 bits. `output_bytes` is the room before, and the length after. */
unsigned long cpkcs11_aes_gcm(
    cpkcs11_module *module, unsigned long session, unsigned long key, bool encrypts, const void *nonce,
    unsigned long nonce_bytes, const void *additional, unsigned long additional_bytes, const void *input,
    unsigned long input_bytes, void *output, unsigned long *output_bytes);

/* RSA-OAEP without a label, with SHA-256 or SHA-1 for label and mask. */
unsigned long cpkcs11_rsa_oaep_decrypt(
    cpkcs11_module *module, unsigned long session, unsigned long key, bool uses_sha256, const void *input,
    unsigned long input_bytes, void *output, unsigned long *output_bytes);

#endif
