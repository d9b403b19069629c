#define _GNU_SOURCE
#include "CQRCode.h"

#include <dlfcn.h>
#include <string.h>

/* The interface of libqrencode 4, which is loaded when it is needed: programs do not depend on it.
   https://fukuchi.org/works/qrencode/manual/ */

struct symbol {
    int version;
    int width;
    unsigned char *data;
};

enum { level_medium = 1, mode_8bit = 2, is_case_sensitive = 1 };

typedef struct symbol *encode_function(const char *text, int version, int level, int mode, int case_sensitive);
typedef void free_function(struct symbol *symbol);

#ifdef __APPLE__
static const char library[] = "libqrencode.4.dylib";
#else
static const char library[] = "libqrencode.so.4";
#endif

/* Not memset alone: the compiler may drop it before the memory is freed. */
static void wipe(void *bytes, size_t count) {
    memset(bytes, 0, count);
    __asm__ __volatile__("" : : "r"(bytes) : "memory");
}

static int copy_modules(const struct symbol *symbol, unsigned char *modules, size_t capacity) {
    size_t count = (size_t)symbol->width * (size_t)symbol->width;
    int width = count <= capacity ? symbol->width : cqrcode_failed;
    for (size_t index = 0; width > 0 && index < count; index++) modules[index] = symbol->data[index] & 1;
    wipe(symbol->data, count);
    return width;
}

int cqrcode_encode(const char *text, unsigned char *modules, size_t capacity) {
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (!handle) return cqrcode_no_library;
    /* A cast by way of the address of the variable: ISO C has no cast from void * to a function. */
    encode_function *encode = NULL;
    free_function *release = NULL;
    *(void **)&encode = dlsym(handle, "QRcode_encodeString");
    *(void **)&release = dlsym(handle, "QRcode_free");
    int width = cqrcode_no_library;
    if (encode && release) {
        struct symbol *symbol = encode(text, 0, level_medium, mode_8bit, is_case_sensitive);
        width = symbol ? copy_modules(symbol, modules, capacity) : cqrcode_failed;
        if (symbol) release(symbol);
    }
    dlclose(handle);
    return width;
}
