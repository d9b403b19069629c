#include "CPKCS11.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Cryptoki's declarations, as far as they are used. Its structures have the layout of the platform's C. */

typedef unsigned long rv;
typedef unsigned long ulong;

struct attribute {
    ulong type;
    void *value;
    ulong bytes;
};

struct mechanism {
    ulong type;
    void *parameter;
    ulong bytes;
};

struct version {
    unsigned char major, minor;
};

struct token_info {
    unsigned char label[32], manufacturer[32], model[16], serial[16];
    ulong flags;
    ulong counters[6], memory[4];
    struct version hardware, firmware;
    unsigned char time[16];
};

struct initialize_arguments {
    void *create, *destroy, *lock, *unlock;
    ulong flags;
    void *reserved;
};

struct gcm_parameters {
    void *nonce;
    ulong nonce_bytes, nonce_bits;
    void *additional;
    ulong additional_bytes, tag_bits;
};

struct oaep_parameters {
    ulong hash, mask, source;
    void *label;
    ulong label_bytes;
};

/* The beginning of CK_FUNCTION_LIST. Entries that are not called have no type. */
struct functions {
    struct version version;
    rv (*initialize)(void *);
    void *finalize, *get_info, *get_function_list;
    rv (*get_slot_list)(unsigned char, ulong *, ulong *);
    void *get_slot_info;
    rv (*get_token_info)(ulong, struct token_info *);
    void *get_mechanism_list, *get_mechanism_info, *init_token, *init_pin, *set_pin;
    rv (*open_session)(ulong, ulong, void *, void *, ulong *);
    rv (*close_session)(ulong);
    void *close_all_sessions, *get_session_info, *get_operation_state, *set_operation_state;
    rv (*login)(ulong, ulong, unsigned char *, ulong);
    rv (*logout)(ulong);
    void *create_object, *copy_object, *destroy_object, *get_object_size;
    rv (*get_attribute_value)(ulong, ulong, struct attribute *, ulong);
    void *set_attribute_value;
    rv (*find_objects_init)(ulong, struct attribute *, ulong);
    rv (*find_objects)(ulong, ulong *, ulong, ulong *);
    rv (*find_objects_final)(ulong);
    rv (*encrypt_init)(ulong, struct mechanism *, ulong);
    rv (*encrypt)(ulong, unsigned char *, ulong, unsigned char *, ulong *);
    void *encrypt_update, *encrypt_final;
    rv (*decrypt_init)(ulong, struct mechanism *, ulong);
    rv (*decrypt)(ulong, unsigned char *, ulong, unsigned char *, ulong *);
};

struct cpkcs11_module {
    struct functions *functions;
};

enum {
    os_locking_ok = 2,
    already_initialized = 0x191,
    serial_session = 4,
    user = 1,
    attribute_class = 0,
    attribute_token = 1,
    attribute_key_type = 0x100,
    mechanism_rsa_oaep = 9,
    mechanism_aes_gcm = 0x1087,
    mechanism_sha1 = 0x220,
    mechanism_sha256 = 0x250,
    mask_sha1 = 1,
    mask_sha256 = 2,
    data_specified = 1,
    general_error = 5,
};

cpkcs11_module *cpkcs11_load(const char *path, char *reason, size_t reason_bytes, unsigned long *result) {
    *result = 0;
    reason[0] = 0;
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        const char *text = dlerror();
        snprintf(reason, reason_bytes, "%s", text ? text : "it cannot be loaded");
        return NULL;
    }
    rv (*get_function_list)(struct functions **) = NULL;
    *(void **)&get_function_list = dlsym(library, "C_GetFunctionList");
    struct functions *functions = NULL;
    cpkcs11_module *module = NULL;
    if (!get_function_list) {
        snprintf(reason, reason_bytes, "it has no C_GetFunctionList");
    } else if ((*result = get_function_list(&functions)) != 0 || !functions) {
        if (*result == 0) *result = general_error;
    } else {
        struct initialize_arguments arguments = {.flags = os_locking_ok};
        rv initialized = functions->initialize(&arguments);
        if (initialized != 0 && initialized != already_initialized) {
            *result = initialized;
        } else if ((module = malloc(sizeof *module)) != NULL) {
            module->functions = functions;
            return module;
        } else {
            snprintf(reason, reason_bytes, "there is no memory for it");
        }
    }
    dlclose(library);
    return NULL;
}

unsigned long cpkcs11_slots(cpkcs11_module *module, unsigned long *slots, unsigned long *count) {
    return module->functions->get_slot_list(1, slots, count);
}

unsigned long cpkcs11_token_info(cpkcs11_module *module, unsigned long slot, cpkcs11_token *token) {
    struct token_info info;
    memset(&info, 0, sizeof info);
    rv result = module->functions->get_token_info(slot, &info);
    if (result != 0) return result;
    memcpy(token->label, info.label, sizeof token->label);
    memcpy(token->manufacturer, info.manufacturer, sizeof token->manufacturer);
    memcpy(token->model, info.model, sizeof token->model);
    memcpy(token->serial, info.serial, sizeof token->serial);
    token->flags = info.flags;
    return 0;
}

unsigned long cpkcs11_open(cpkcs11_module *module, unsigned long slot, unsigned long *session) {
    return module->functions->open_session(slot, serial_session, NULL, NULL, session);
}

void cpkcs11_close(cpkcs11_module *module, unsigned long session) { module->functions->close_session(session); }

unsigned long cpkcs11_login(cpkcs11_module *module, unsigned long session, const void *pin, unsigned long pin_bytes) {
    return module->functions->login(session, user, (unsigned char *)pin, pin_bytes);
}

void cpkcs11_logout(cpkcs11_module *module, unsigned long session) { module->functions->logout(session); }

unsigned long cpkcs11_find(
    cpkcs11_module *module, unsigned long session, unsigned long object_class, unsigned long key_type, const char *label,
    const void *identifier, unsigned long identifier_bytes, unsigned long *objects, unsigned long *count) {
    unsigned char on_token = 1;
    struct attribute template[5] = {
        {attribute_class, &object_class, sizeof object_class},
        {attribute_token, &on_token, sizeof on_token},
        {attribute_key_type, &key_type, sizeof key_type},
    };
    ulong fields = 3;
    if (label) template[fields++] = (struct attribute){cpkcs11_attribute_label, (void *)label, strlen(label)};
    if (identifier) {
        template[fields++] = (struct attribute){cpkcs11_attribute_id, (void *)identifier, identifier_bytes};
    }
    rv result = module->functions->find_objects_init(session, template, fields);
    if (result != 0) return result;
    ulong room = *count, found = 0;
    *count = 0;
    /* A module may give fewer at a time than there are. */
    while (*count < room) {
        result = module->functions->find_objects(session, objects + *count, room - *count, &found);
        if (result != 0 || found == 0) break;
        *count += found;
    }
    rv final = module->functions->find_objects_final(session);
    return result != 0 ? result : final;
}

unsigned long cpkcs11_attribute(
    cpkcs11_module *module, unsigned long session, unsigned long object, unsigned long type, void *value,
    unsigned long *bytes) {
    struct attribute attribute = {type, value, *bytes};
    rv result = module->functions->get_attribute_value(session, object, &attribute, 1);
    if (result == 0 && attribute.bytes > *bytes) return general_error;
    *bytes = attribute.bytes;
    return result;
}

unsigned long cpkcs11_aes_gcm(
    cpkcs11_module *module, unsigned long session, unsigned long key, bool encrypts, const void *nonce,
    unsigned long nonce_bytes, const void *additional, unsigned long additional_bytes, const void *input,
    unsigned long input_bytes, void *output, unsigned long *output_bytes) {
    struct gcm_parameters parameters = {
        (void *)nonce, nonce_bytes, nonce_bytes * 8, (void *)additional, additional_bytes, 128};
    struct mechanism mechanism = {mechanism_aes_gcm, &parameters, sizeof parameters};
    struct functions *functions = module->functions;
    rv result = encrypts ? functions->encrypt_init(session, &mechanism, key)
                         : functions->decrypt_init(session, &mechanism, key);
    if (result != 0) return result;
    return encrypts ? functions->encrypt(session, (unsigned char *)input, input_bytes, output, output_bytes)
                    : functions->decrypt(session, (unsigned char *)input, input_bytes, output, output_bytes);
}

unsigned long cpkcs11_rsa_oaep_decrypt(
    cpkcs11_module *module, unsigned long session, unsigned long key, bool uses_sha256, const void *input,
    unsigned long input_bytes, void *output, unsigned long *output_bytes) {
    struct oaep_parameters parameters = {
        uses_sha256 ? mechanism_sha256 : mechanism_sha1, uses_sha256 ? mask_sha256 : mask_sha1, data_specified, NULL, 0};
    struct mechanism mechanism = {mechanism_rsa_oaep, &parameters, sizeof parameters};
    rv result = module->functions->decrypt_init(session, &mechanism, key);
    if (result != 0) return result;
    return module->functions->decrypt(session, (unsigned char *)input, input_bytes, output, output_bytes);
}
