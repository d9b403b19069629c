#include "CTPM2.h"

#ifdef CIPHERSTORE_TPM2

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <tss2/tss2_esys.h>
#include <tss2/tss2_mu.h>
#include <tss2/tss2_rc.h>
#include <tss2/tss2_tctildr.h>

struct ctpm2_context {
    TSS2_TCTI_CONTEXT *tcti;
    ESYS_CONTEXT *esys;
    /* The primary key, under which sessions are salted and secrets sealed; ESYS_TR_NONE until it is found. */
    ESYS_TR primary;
    /* Whether the primary key must be flushed: it was made here, and is not one that the TPM keeps. */
    bool is_transient;
    struct ctpm2_name name;
};

/* Where the storage root key of the platform is kept, if it is. TCG TPM v2.0 Provisioning Guidance, 7.8. */
static const TPM2_HANDLE storage_root_key = 0x81000001;

static const TPM2B_PUBLIC storage_template = {
    .publicArea =
        {
            .type = TPM2_ALG_ECC,
            .nameAlg = TPM2_ALG_SHA256,
            .objectAttributes = TPMA_OBJECT_RESTRICTED | TPMA_OBJECT_DECRYPT | TPMA_OBJECT_FIXEDTPM |
                                TPMA_OBJECT_FIXEDPARENT | TPMA_OBJECT_SENSITIVEDATAORIGIN | TPMA_OBJECT_USERWITHAUTH |
                                TPMA_OBJECT_NODA,
            .parameters.eccDetail =
                {
                    .symmetric = {.algorithm = TPM2_ALG_AES, .keyBits.aes = 128, .mode.aes = TPM2_ALG_CFB},
                    .scheme.scheme = TPM2_ALG_NULL,
                    .curveID = TPM2_ECC_NIST_P256,
                    .kdf.scheme = TPM2_ALG_NULL,
                },
        },
};

static void wipe(void *bytes, size_t count) {
    memset(bytes, 0, count);
    /* Not memset alone: the compiler may drop it before the memory is freed. */
    __asm__ __volatile__("" : : "r"(bytes) : "memory");
}

/* A response code of format 1 without the number of its parameter, handle or session. */
static TSS2_RC without_number(TSS2_RC code) {
    return code & TPM2_RC_FMT1 ? code & (TPM2_RC_FMT1 | 0x3f) : code;
}

/* The meaning of a response code of the TPM where the policy or the authorization of an object is tried. */
static int meaning(TSS2_RC code) {
    if (code == TSS2_RC_SUCCESS) return ctpm2_done;
    TSS2_RC layer = code & TSS2_RC_LAYER_MASK;
    if (layer == TSS2_TCTI_RC_LAYER) return ctpm2_absent;
    if (layer != TSS2_TPM_RC_LAYER && layer != TSS2_RESMGR_TPM_RC_LAYER) {
        /* ESAPI passes errors of the transport on in its own layer. */
        return (code & ~TSS2_RC_LAYER_MASK) == TSS2_BASE_RC_IO_ERROR ? ctpm2_absent : ctpm2_failed;
    }
    TSS2_RC bare = code & ~TSS2_RC_LAYER_MASK;
    switch (bare) {
    case TPM2_RC_OBJECT_MEMORY:
    case TPM2_RC_SESSION_MEMORY:
    case TPM2_RC_MEMORY:
    case TPM2_RC_RETRY: return ctpm2_busy;
    default: break;
    }
    switch (without_number(bare)) {
    case TPM2_RC_AUTH_FAIL:
    case TPM2_RC_BAD_AUTH: return ctpm2_wrong_auth;
    case TPM2_RC_LOCKOUT: return ctpm2_locked_out;
    case TPM2_RC_POLICY_FAIL:
    case TPM2_RC_PCR_CHANGED: return ctpm2_policy_failed;
    case TPM2_RC_INTEGRITY: return ctpm2_damaged;
    case TPM2_RC_SIGNATURE: return ctpm2_bad_signature;
    default: return ctpm2_failed;
    }
}

static int failed(struct ctpm2_failure *failure, TSS2_RC code, const char *call) {
    failure->code = code;
    failure->call = call;
    return meaning(code);
}

/* MARK: Opening */

int ctpm2_open(const char *configuration, struct ctpm2_context **result, struct ctpm2_failure *failure) {
    struct ctpm2_context *context = calloc(1, sizeof *context);
    if (!context) return failed(failure, TSS2_BASE_RC_MEMORY, "calloc");
    context->primary = ESYS_TR_NONE;
    TSS2_RC code = Tss2_TctiLdr_Initialize(configuration, &context->tcti);
    if (code != TSS2_RC_SUCCESS) {
        free(context);
        failed(failure, code, "Tss2_TctiLdr_Initialize");
        return ctpm2_absent;
    }
    code = Esys_Initialize(&context->esys, context->tcti, NULL);
    if (code != TSS2_RC_SUCCESS) {
        Tss2_TctiLdr_Finalize(&context->tcti);
        free(context);
        failed(failure, code, "Esys_Initialize");
        return ctpm2_absent;
    }
    *result = context;
    return ctpm2_done;
}

static void drop_primary(struct ctpm2_context *context) {
    if (context->primary == ESYS_TR_NONE) return;
    if (context->is_transient) {
        Esys_FlushContext(context->esys, context->primary);
    } else {
        Esys_TR_Close(context->esys, &context->primary);
    }
    context->primary = ESYS_TR_NONE;
}

void ctpm2_close(struct ctpm2_context *context) {
    drop_primary(context);
    Esys_Finalize(&context->esys);
    Tss2_TctiLdr_Finalize(&context->tcti);
    free(context);
}

/* MARK: Primary keys */

static TSS2_RC make_primary(struct ctpm2_context *context, ESYS_TR hierarchy, ESYS_TR *primary) {
    TPM2B_SENSITIVE_CREATE sensitive = {0};
    TPM2B_DATA outside = {0};
    TPML_PCR_SELECTION selection = {0};
    return Esys_CreatePrimary(
        context->esys, hierarchy, ESYS_TR_PASSWORD, ESYS_TR_NONE, ESYS_TR_NONE, &sensitive, &storage_template, &outside,
        &selection, primary, NULL, NULL, NULL, NULL);
}

static TSS2_RC read_name(struct ctpm2_context *context, ESYS_TR object, struct ctpm2_name *result) {
    TPM2B_NAME *name = NULL;
    TSS2_RC code = Esys_TR_GetName(context->esys, object, &name);
    if (code != TSS2_RC_SUCCESS) return code;
    if (name->size <= sizeof result->bytes) {
        result->count = name->size;
        memcpy(result->bytes, name->name, name->size);
    } else {
        code = TSS2_BASE_RC_INSUFFICIENT_BUFFER;
    }
    Esys_Free(name);
    return code;
}

static bool are_equal(const struct ctpm2_name *one, const struct ctpm2_name *other) {
    return one->count == other->count && memcmp(one->bytes, other->bytes, one->count) == 0;
}

/* Whether a key can be the parent of sealed objects, and salt sessions. */
static bool is_parent(struct ctpm2_context *context, ESYS_TR key) {
    TPM2B_PUBLIC *public = NULL;
    if (Esys_ReadPublic(
            context->esys, key, ESYS_TR_NONE, ESYS_TR_NONE, ESYS_TR_NONE, &public, NULL, NULL) != TSS2_RC_SUCCESS)
        return false;
    TPMA_OBJECT needed = TPMA_OBJECT_RESTRICTED | TPMA_OBJECT_DECRYPT | TPMA_OBJECT_FIXEDTPM | TPMA_OBJECT_FIXEDPARENT;
    bool result = (public->publicArea.objectAttributes & needed) == needed;
    Esys_Free(public);
    return result;
}

/* Finds the primary key with a name: the one that the TPM keeps, or the one that is made of its seed. For an object that
   is being made the name is empty, and either will do.

   The name proves the key in which sessions are salted: without that, a device on the bus could offer a key of its own. */
static int find_primary(
    struct ctpm2_context *context, struct ctpm2_name *expected, struct ctpm2_failure *failure) {
    if (context->primary != ESYS_TR_NONE && are_equal(&context->name, expected)) return ctpm2_done;
    for (int attempt = 0; attempt < 2; attempt++) {
        drop_primary(context);
        context->is_transient = attempt == 1;
        TSS2_RC code = context->is_transient
            ? make_primary(context, ESYS_TR_RH_OWNER, &context->primary)
            : Esys_TR_FromTPMPublic(
                  context->esys, storage_root_key, ESYS_TR_NONE, ESYS_TR_NONE, ESYS_TR_NONE, &context->primary);
        struct ctpm2_name name = {0};
        if (code == TSS2_RC_SUCCESS) code = read_name(context, context->primary, &name);
        if (code != TSS2_RC_SUCCESS) {
            if (meaning(code) == ctpm2_absent) return failed(failure, code, "Esys_TR_FromTPMPublic");
            if (context->is_transient) {
                return failed(failure, code, "Esys_CreatePrimary") == ctpm2_busy ? ctpm2_busy : ctpm2_failed;
            }
            continue;
        }
        if (expected->count == 0 && (context->is_transient || is_parent(context, context->primary))) *expected = name;
        context->name = name;
        if (are_equal(&name, expected)) return ctpm2_done;
    }
    failed(failure, TSS2_RC_SUCCESS, "Esys_CreatePrimary");
    return ctpm2_other_primary;
}

int ctpm2_prove(struct ctpm2_context *context, const struct ctpm2_object *object, struct ctpm2_failure *failure) {
    struct ctpm2_name parent = object->parent;
    if (parent.count == 0) return failed(failure, TSS2_RC_SUCCESS, "Esys_Load"), ctpm2_damaged;
    return find_primary(context, &parent, failure);
}

int ctpm2_machine(struct ctpm2_context *context, struct ctpm2_name *name, struct ctpm2_failure *failure) {
    ESYS_TR primary = ESYS_TR_NONE;
    TSS2_RC code = make_primary(context, ESYS_TR_RH_ENDORSEMENT, &primary);
    if (code != TSS2_RC_SUCCESS) return failed(failure, code, "Esys_CreatePrimary");
    code = read_name(context, primary, name);
    Esys_FlushContext(context->esys, primary);
    return failed(failure, code, "Esys_TR_GetName");
}

/* MARK: Sessions and policies */

/* Begins a session that is salted to the primary key, so that nobody on the bus can read what it encrypts. */
static TSS2_RC begin_session(
    struct ctpm2_context *context, TPM2_SE type, TPMA_SESSION encryption, ESYS_TR *session) {
    const TPMT_SYM_DEF symmetric = {.algorithm = TPM2_ALG_AES, .keyBits.aes = 128, .mode.aes = TPM2_ALG_CFB};
    TSS2_RC code = Esys_StartAuthSession(
        context->esys, context->primary, ESYS_TR_NONE, ESYS_TR_NONE, ESYS_TR_NONE, ESYS_TR_NONE, NULL, type, &symmetric,
        TPM2_ALG_SHA256, session);
    if (code != TSS2_RC_SUCCESS) return code;
    return Esys_TRSess_SetAttributes(
        context->esys, *session, encryption | TPMA_SESSION_CONTINUESESSION,
        TPMA_SESSION_ENCRYPT | TPMA_SESSION_DECRYPT | TPMA_SESSION_CONTINUESESSION);
}

static void end_session(struct ctpm2_context *context, ESYS_TR session) {
    if (session != ESYS_TR_NONE) Esys_FlushContext(context->esys, session);
}

static TPML_PCR_SELECTION selection_of(uint32_t pcrs) {
    TPML_PCR_SELECTION selection = {.count = 1};
    selection.pcrSelections[0].hash = TPM2_ALG_SHA256;
    selection.pcrSelections[0].sizeofSelect = 3;
    for (int index = 0; index < 3; index++) selection.pcrSelections[0].pcrSelect[index] = (BYTE)(pcrs >> (8 * index));
    return selection;
}

/* A policy of PCRs that a key has signed: the name of the key, and the ticket of the TPM for the signature. */
struct approved_policy {
    TPM2B_NAME signer;
    TPM2B_DIGEST digest;
    TPMT_TK_VERIFIED ticket;
};

static TSS2_RC load_signer(struct ctpm2_context *context, const struct ctpm2_part *modulus, ESYS_TR *handle) {
    TPM2B_PUBLIC signer = {
        .publicArea =
            {
                .type = TPM2_ALG_RSA,
                .nameAlg = TPM2_ALG_SHA256,
                .objectAttributes = TPMA_OBJECT_DECRYPT | TPMA_OBJECT_SIGN_ENCRYPT | TPMA_OBJECT_USERWITHAUTH,
                .parameters.rsaDetail =
                    {
                        .symmetric.algorithm = TPM2_ALG_NULL,
                        .scheme.scheme = TPM2_ALG_NULL,
                        .keyBits = (TPMI_RSA_KEY_BITS)(modulus->count * 8),
                        /* 65537 */
                        .exponent = 0,
                    },
                .unique.rsa.size = modulus->count,
            },
    };
    memcpy(signer.publicArea.unique.rsa.buffer, modulus->bytes, modulus->count);
    /* Not the null hierarchy: its tickets authorize nothing. */
    return Esys_LoadExternal(
        context->esys, ESYS_TR_NONE, ESYS_TR_NONE, ESYS_TR_NONE, NULL, &signer, ESYS_TR_RH_OWNER, handle);
}

static TSS2_RC verify(
    struct ctpm2_context *context, ESYS_TR signer, const struct ctpm2_approval *given, TPMT_TK_VERIFIED *result) {
    TPM2B_DIGEST digest = {.size = ctpm2_digest_bytes};
    memcpy(digest.buffer, given->digest, ctpm2_digest_bytes);
    TPMT_SIGNATURE signature = {
        .sigAlg = TPM2_ALG_RSASSA,
        .signature.rsassa = {.hash = TPM2_ALG_SHA256, .sig.size = given->signature.count},
    };
    memcpy(signature.signature.rsassa.sig.buffer, given->signature.bytes, given->signature.count);
    TPMT_TK_VERIFIED *ticket = NULL;
    TSS2_RC code = Esys_VerifySignature(
        context->esys, signer, ESYS_TR_NONE, ESYS_TR_NONE, ESYS_TR_NONE, &digest, &signature, &ticket);
    if (code == TSS2_RC_SUCCESS) *result = *ticket;
    Esys_Free(ticket);
    return code;
}

/* Has the TPM verify the signature of a policy; does nothing if the object has no signed PCRs.

   given: NULL for a policy that is being made: the name of the key is enough then. */
static int approve(
    struct ctpm2_context *context, const struct ctpm2_object *object, const struct ctpm2_approval *given,
    struct approved_policy *result, struct ctpm2_failure *failure) {
    memset(result, 0, sizeof *result);
    result->ticket.tag = TPM2_ST_VERIFIED;
    result->ticket.hierarchy = TPM2_RH_OWNER;
    if (object->signed_pcrs == 0) return ctpm2_done;
    ESYS_TR signer = ESYS_TR_NONE;
    TSS2_RC code = load_signer(context, &object->modulus, &signer);
    if (code != TSS2_RC_SUCCESS) {
        int outcome = failed(failure, code, "Esys_LoadExternal");
        return outcome == ctpm2_failed ? ctpm2_unusable_signer : outcome;
    }
    const char *call = "Esys_TR_GetName";
    TPM2B_NAME *name = NULL;
    code = Esys_TR_GetName(context->esys, signer, &name);
    if (code == TSS2_RC_SUCCESS) result->signer = *name;
    Esys_Free(name);
    if (code == TSS2_RC_SUCCESS && given) {
        result->digest.size = ctpm2_digest_bytes;
        memcpy(result->digest.buffer, given->policy, ctpm2_digest_bytes);
        call = "Esys_VerifySignature";
        code = verify(context, signer, given, &result->ticket);
    }
    Esys_FlushContext(context->esys, signer);
    return failed(failure, code, call);
}

static TSS2_RC run_pcr_policy(
    struct ctpm2_context *context, ESYS_TR session, uint32_t pcrs, const uint8_t *digest) {
    TPML_PCR_SELECTION selection = selection_of(pcrs);
    TPM2B_DIGEST expected = {0};
    if (digest) {
        expected.size = ctpm2_digest_bytes;
        memcpy(expected.buffer, digest, ctpm2_digest_bytes);
    }
    return Esys_PolicyPCR(context->esys, session, ESYS_TR_NONE, ESYS_TR_NONE, ESYS_TR_NONE, &expected, &selection);
}

/* The conditions for unsealing an object: a signed policy, the command alone, PCRs, the authorization value. The signed
   policy is the first one: it replaces the policy digest.

   digest: that of the PCRs for a policy that is being made; NULL for their present values. */
static TSS2_RC run_policy(
    struct ctpm2_context *context, ESYS_TR session, const struct ctpm2_object *object,
    const struct approved_policy *approved, const uint8_t *digest) {
    TSS2_RC code = TSS2_RC_SUCCESS;
    if (object->signed_pcrs != 0) {
        /* A trial session does not compare the signed policy with its own. */
        if (!digest) code = run_pcr_policy(context, session, object->signed_pcrs, NULL);
        const TPM2B_NONCE reference = {0};
        if (code == TSS2_RC_SUCCESS)
            code = Esys_PolicyAuthorize(
                context->esys, session, ESYS_TR_NONE, ESYS_TR_NONE, ESYS_TR_NONE, &approved->digest, &reference,
                &approved->signer, &approved->ticket);
    }
    if (code == TSS2_RC_SUCCESS)
        code = Esys_PolicyCommandCode(
            context->esys, session, ESYS_TR_NONE, ESYS_TR_NONE, ESYS_TR_NONE, TPM2_CC_Unseal);
    if (code == TSS2_RC_SUCCESS && object->pcrs != 0)
        code = run_pcr_policy(context, session, object->pcrs, digest);
    if (code == TSS2_RC_SUCCESS && object->has_auth)
        code = Esys_PolicyAuthValue(context->esys, session, ESYS_TR_NONE, ESYS_TR_NONE, ESYS_TR_NONE);
    return code;
}

static TSS2_RC policy_digest(
    struct ctpm2_context *context, const struct ctpm2_object *object, const struct approved_policy *approved,
    const uint8_t *pcr_digest, TPM2B_DIGEST *result) {
    ESYS_TR session = ESYS_TR_NONE;
    TPM2B_DIGEST *digest = NULL;
    TSS2_RC code = begin_session(context, TPM2_SE_TRIAL, 0, &session);
    if (code == TSS2_RC_SUCCESS) code = run_policy(context, session, object, approved, pcr_digest);
    if (code == TSS2_RC_SUCCESS)
        code = Esys_PolicyGetDigest(context->esys, session, ESYS_TR_NONE, ESYS_TR_NONE, ESYS_TR_NONE, &digest);
    if (code == TSS2_RC_SUCCESS) *result = *digest;
    Esys_Free(digest);
    end_session(context, session);
    return code;
}

/* MARK: PCRs */

int ctpm2_read_pcrs(
    struct ctpm2_context *context, uint32_t pcrs, struct ctpm2_values *values, struct ctpm2_failure *failure) {
    memset(values, 0, sizeof *values);
    while (pcrs != 0) {
        TPML_PCR_SELECTION wanted = selection_of(pcrs);
        TPML_PCR_SELECTION *read = NULL;
        TPML_DIGEST *digests = NULL;
        TSS2_RC code = Esys_PCR_Read(
            context->esys, ESYS_TR_NONE, ESYS_TR_NONE, ESYS_TR_NONE, &wanted, NULL, &read, &digests);
        if (code != TSS2_RC_SUCCESS) return failed(failure, code, "Esys_PCR_Read");
        uint32_t before = pcrs;
        for (uint32_t pcr = 0, index = 0; pcr < ctpm2_pcrs && index < digests->count; pcr++) {
            bool is_read = read->count > 0 && read->pcrSelections[0].pcrSelect[pcr / 8] >> pcr % 8 & 1;
            if (!is_read) continue;
            if (digests->digests[index].size == ctpm2_digest_bytes)
                memcpy(values->values[pcr], digests->digests[index].buffer, ctpm2_digest_bytes);
            index++;
            pcrs &= ~(UINT32_C(1) << pcr);
        }
        Esys_Free(read);
        Esys_Free(digests);
        if (pcrs == before) return failed(failure, TSS2_RC_SUCCESS, "Esys_PCR_Read"), ctpm2_no_bank;
    }
    return ctpm2_done;
}

/* MARK: Sealing */

static TPM2B_PUBLIC sealed_template(const struct ctpm2_object *object, const TPM2B_DIGEST *policy) {
    TPM2B_PUBLIC template = {
        .publicArea =
            {
                .type = TPM2_ALG_KEYEDHASH,
                .nameAlg = TPM2_ALG_SHA256,
                /* No use by the authorization value without the policy. Only wrong PINs count for the lockout. */
                .objectAttributes =
                    TPMA_OBJECT_FIXEDTPM | TPMA_OBJECT_FIXEDPARENT | (object->has_auth ? 0 : TPMA_OBJECT_NODA),
                .authPolicy = *policy,
                .parameters.keyedHashDetail.scheme.scheme = TPM2_ALG_NULL,
            },
    };
    return template;
}

static TSS2_RC keep(struct ctpm2_object *object, const TPM2B_PUBLIC *public, const TPM2B_PRIVATE *private) {
    size_t offset = 0;
    TSS2_RC code = Tss2_MU_TPM2B_PUBLIC_Marshal(public, object->public_part.bytes, ctpm2_part_bytes, &offset);
    object->public_part.count = (uint16_t)offset;
    offset = 0;
    if (code == TSS2_RC_SUCCESS)
        code = Tss2_MU_TPM2B_PRIVATE_Marshal(private, object->private_part.bytes, ctpm2_part_bytes, &offset);
    object->private_part.count = (uint16_t)offset;
    return code;
}

int ctpm2_seal(
    struct ctpm2_context *context, struct ctpm2_object *object, const uint8_t *secret, const uint8_t *pcr_digest,
    const uint8_t *auth, struct ctpm2_failure *failure) {
    object->parent.count = 0;
    int outcome = find_primary(context, &object->parent, failure);
    if (outcome != ctpm2_done) return outcome;
    struct approved_policy approved;
    outcome = approve(context, object, NULL, &approved, failure);
    if (outcome != ctpm2_done) return outcome;
    TPM2B_DIGEST policy = {0};
    TSS2_RC code = policy_digest(context, object, &approved, pcr_digest, &policy);
    if (code != TSS2_RC_SUCCESS) return failed(failure, code, "Esys_PolicyGetDigest");
    ESYS_TR session = ESYS_TR_NONE;
    code = begin_session(context, TPM2_SE_HMAC, TPMA_SESSION_DECRYPT | TPMA_SESSION_ENCRYPT, &session);
    const char *call = "Esys_StartAuthSession";
    if (code == TSS2_RC_SUCCESS) {
        TPM2B_SENSITIVE_CREATE sensitive = {.sensitive.data.size = ctpm2_secret_bytes};
        memcpy(sensitive.sensitive.data.buffer, secret, ctpm2_secret_bytes);
        if (object->has_auth) {
            sensitive.sensitive.userAuth.size = ctpm2_digest_bytes;
            memcpy(sensitive.sensitive.userAuth.buffer, auth, ctpm2_digest_bytes);
        }
        TPM2B_PUBLIC template = sealed_template(object, &policy), *public = NULL;
        TPM2B_PRIVATE *private = NULL;
        TPM2B_DATA outside = {0};
        TPML_PCR_SELECTION selection = {0};
        call = "Esys_Create";
        code = Esys_Create(
            context->esys, context->primary, session, ESYS_TR_NONE, ESYS_TR_NONE, &sensitive, &template, &outside,
            &selection, &private, &public, NULL, NULL, NULL);
        wipe(&sensitive, sizeof sensitive);
        if (code == TSS2_RC_SUCCESS) code = keep(object, public, private);
        Esys_Free(public);
        Esys_Free(private);
    }
    end_session(context, session);
    return failed(failure, code, call);
}

/* MARK: Unsealing */

static TSS2_RC load(
    struct ctpm2_context *context, const struct ctpm2_object *object, ESYS_TR *handle) {
    TPM2B_PUBLIC public = {0};
    TPM2B_PRIVATE private = {0};
    size_t offset = 0;
    TSS2_RC code =
        Tss2_MU_TPM2B_PUBLIC_Unmarshal(object->public_part.bytes, object->public_part.count, &offset, &public);
    offset = 0;
    if (code == TSS2_RC_SUCCESS)
        code = Tss2_MU_TPM2B_PRIVATE_Unmarshal(object->private_part.bytes, object->private_part.count, &offset, &private);
    if (code != TSS2_RC_SUCCESS) return code;
    ESYS_TR session = ESYS_TR_NONE;
    code = begin_session(context, TPM2_SE_HMAC, TPMA_SESSION_DECRYPT, &session);
    if (code == TSS2_RC_SUCCESS)
        code = Esys_Load(
            context->esys, context->primary, session, ESYS_TR_NONE, ESYS_TR_NONE, &private, &public, handle);
    end_session(context, session);
    return code;
}

static TSS2_RC set_auth(struct ctpm2_context *context, ESYS_TR handle, const uint8_t *auth) {
    TPM2B_AUTH value = {.size = ctpm2_digest_bytes};
    memcpy(value.buffer, auth, ctpm2_digest_bytes);
    TSS2_RC code = Esys_TR_SetAuth(context->esys, handle, &value);
    wipe(&value, sizeof value);
    return code;
}

static TSS2_RC unseal(struct ctpm2_context *context, ESYS_TR handle, ESYS_TR session, uint8_t *secret) {
    TPM2B_SENSITIVE_DATA *data = NULL;
    TSS2_RC code = Esys_Unseal(context->esys, handle, session, ESYS_TR_NONE, ESYS_TR_NONE, &data);
    if (code != TSS2_RC_SUCCESS) return code;
    if (data->size == ctpm2_secret_bytes) {
        memcpy(secret, data->buffer, ctpm2_secret_bytes);
    } else {
        code = TPM2_RC_INTEGRITY;
    }
    wipe(data, sizeof *data);
    Esys_Free(data);
    return code;
}

int ctpm2_unseal(
    struct ctpm2_context *context, const struct ctpm2_object *object, const struct ctpm2_approval *approval,
    const uint8_t *auth, uint8_t *secret, struct ctpm2_failure *failure) {
    int outcome = ctpm2_prove(context, object, failure);
    if (outcome != ctpm2_done) return outcome;
    struct approved_policy approved;
    outcome = approve(context, object, approval, &approved, failure);
    if (outcome != ctpm2_done) return outcome;
    ESYS_TR handle = ESYS_TR_NONE, session = ESYS_TR_NONE;
    TSS2_RC code = load(context, object, &handle);
    if (code != TSS2_RC_SUCCESS) {
        outcome = failed(failure, code, "Esys_Load");
        /* The TPM and the parts are read here for the first time: everything else is about their content. */
        bool is_told = outcome == ctpm2_absent || outcome == ctpm2_locked_out || outcome == ctpm2_busy;
        return is_told ? outcome : ctpm2_damaged;
    }
    const char *call = "Esys_TR_SetAuth";
    if (object->has_auth) code = set_auth(context, handle, auth);
    if (code == TSS2_RC_SUCCESS) {
        call = "Esys_StartAuthSession";
        code = begin_session(context, TPM2_SE_POLICY, TPMA_SESSION_ENCRYPT, &session);
    }
    if (code == TSS2_RC_SUCCESS) {
        call = "Esys_PolicyPCR";
        code = run_policy(context, session, object, &approved, NULL);
        /* The signed policy is not that of the PCRs: one was extended after it was chosen. */
        if (without_number(code) == TPM2_RC_VALUE) code = TPM2_RC_POLICY_FAIL;
    }
    if (code == TSS2_RC_SUCCESS) {
        call = "Esys_Unseal";
        code = unseal(context, handle, session, secret);
    }
    end_session(context, session);
    Esys_FlushContext(context->esys, handle);
    return failed(failure, code, call);
}

#else

int ctpm2_open(const char *tcti, struct ctpm2_context **context, struct ctpm2_failure *failure) {
    (void)tcti, (void)context, (void)failure;
    return ctpm2_not_built;
}

void ctpm2_close(struct ctpm2_context *context) { (void)context; }

int ctpm2_machine(struct ctpm2_context *context, struct ctpm2_name *name, struct ctpm2_failure *failure) {
    (void)context, (void)name, (void)failure;
    return ctpm2_not_built;
}

int ctpm2_prove(struct ctpm2_context *context, const struct ctpm2_object *object, struct ctpm2_failure *failure) {
    (void)context, (void)object, (void)failure;
    return ctpm2_not_built;
}

int ctpm2_read_pcrs(
    struct ctpm2_context *context, uint32_t pcrs, struct ctpm2_values *values, struct ctpm2_failure *failure) {
    (void)context, (void)pcrs, (void)values, (void)failure;
    return ctpm2_not_built;
}

int ctpm2_seal(
    struct ctpm2_context *context, struct ctpm2_object *object, const uint8_t *secret, const uint8_t *pcr_digest,
    const uint8_t *auth, struct ctpm2_failure *failure) {
    (void)context, (void)object, (void)secret, (void)pcr_digest, (void)auth, (void)failure;
    return ctpm2_not_built;
}

int ctpm2_unseal(
    struct ctpm2_context *context, const struct ctpm2_object *object, const struct ctpm2_approval *approval,
    const uint8_t *auth, uint8_t *secret, struct ctpm2_failure *failure) {
    (void)context, (void)object, (void)approval, (void)auth, (void)secret, (void)failure;
    return ctpm2_not_built;
}

#endif
