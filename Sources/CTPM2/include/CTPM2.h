#ifndef CTPM2_H
#define CTPM2_H

/* Secrets that a TPM 2.0 seals and unseals, by tpm2-tss (ESAPI). Without CIPHERSTORE_TPM2, which the trait TPM2 defines,
   every function returns ctpm2_not_built.

   https://trustedcomputinggroup.org/resource/tpm-library-specification/ (parts 1 and 3), https://tpm2-tss.readthedocs.io */

#include <stddef.h>
#include <stdint.h>

enum {
    ctpm2_secret_bytes = 32,
    ctpm2_digest_bytes = 32,
    /* PCRs that a TPM of a PC has. */
    ctpm2_pcrs = 24,
    /* The longest name, public and private part of an object that is kept. */
    ctpm2_name_bytes = 68,
    ctpm2_part_bytes = 512,
};

enum ctpm2_outcome {
    ctpm2_done = 0,
    /* Built without tpm2-tss. */
    ctpm2_not_built,
    /* There is no TPM at the address, or it does not answer. */
    ctpm2_absent,
    /* No primary key of this TPM has the name that is expected. */
    ctpm2_other_primary,
    /* The policy of the object is not satisfied: a PCR has another value, or the key that signs is another one. */
    ctpm2_policy_failed,
    /* The authorization value is wrong. */
    ctpm2_wrong_auth,
    /* Too many wrong authorization values: the TPM refuses all for a time. */
    ctpm2_locked_out,
    /* The parts of the object are not those that the TPM has made. */
    ctpm2_damaged,
    /* The TPM does not keep such PCRs: their bank is off. */
    ctpm2_no_bank,
    /* The TPM does not load the key that signs policies. */
    ctpm2_unusable_signer,
    /* The signature of the policy is not one by that key. */
    ctpm2_bad_signature,
    /* Other programs use the memory of the TPM, or it asks for another try. */
    ctpm2_busy,
    /* Any other error. */
    ctpm2_failed,
};

/* The last failure: the response code, and the name of the function of tpm2-tss. */
struct ctpm2_failure {
    uint32_t code;
    const char *call;
};

/* Bytes with their number. */
struct ctpm2_name {
    uint16_t count;
    uint8_t bytes[ctpm2_name_bytes];
};

struct ctpm2_part {
    uint16_t count;
    uint8_t bytes[ctpm2_part_bytes];
};

/* The object under which a secret is sealed, and the parts that are kept of it. None of it is secret. */
struct ctpm2_object {
    /* Bit n is PCR n, of the bank SHA-256. */
    uint32_t pcrs;
    /* Bit n is PCR n of the same bank, of which a key signs the values; 0 without such a key. */
    uint32_t signed_pcrs;
    /* The modulus of that RSA key; its exponent is 65537. */
    struct ctpm2_part modulus;
    /* Whether the authorization value is asked for. */
    uint8_t has_auth;
    /* The name of the primary key. */
    struct ctpm2_name parent;
    struct ctpm2_part public_part;
    struct ctpm2_part private_part;
};

/* The signature of a policy of PCRs, RSASSA-PKCS1-v1_5 with SHA-256. */
struct ctpm2_approval {
    /* The policy digest, and SHA-256 of it. */
    uint8_t policy[ctpm2_digest_bytes];
    uint8_t digest[ctpm2_digest_bytes];
    struct ctpm2_part signature;
};

struct ctpm2_values {
    uint8_t values[ctpm2_pcrs][ctpm2_digest_bytes];
};

struct ctpm2_context;

/* Opens a TPM by the configuration of its TCTI, such as "device:/dev/tpmrm0" or "swtpm:host=127.0.0.1,port=2321". */
int ctpm2_open(const char *tcti, struct ctpm2_context **context, struct ctpm2_failure *failure);
void ctpm2_close(struct ctpm2_context *context);

/* The name of a primary key in the endorsement hierarchy: it stays when the TPM is cleared, and differs between TPMs. */
int ctpm2_machine(struct ctpm2_context *context, struct ctpm2_name *name, struct ctpm2_failure *failure);

/* The values of PCRs; those that were not asked for are zero. */
int ctpm2_read_pcrs(
    struct ctpm2_context *context, uint32_t pcrs, struct ctpm2_values *values, struct ctpm2_failure *failure);

/* Whether this TPM has the primary key of an object: done, or ctpm2_other_primary. */
int ctpm2_prove(struct ctpm2_context *context, const struct ctpm2_object *object, struct ctpm2_failure *failure);

/* Seals a secret of ctpm2_secret_bytes under the storage hierarchy. The caller has set `pcrs`, `has_auth`,
   `signed_pcrs` and `modulus`.

   pcr_digest: SHA-256 of the values of the PCRs one after another; read only if there are PCRs.
   auth: ctpm2_digest_bytes, the last of them not 0; read only if the object has one. */
int ctpm2_seal(
    struct ctpm2_context *context, struct ctpm2_object *object, const uint8_t *secret, const uint8_t *pcr_digest,
    const uint8_t *auth, struct ctpm2_failure *failure);

/* Gives a secret of ctpm2_secret_bytes back.

   approval: read only if there are signed PCRs; the policy of their present values. */
int ctpm2_unseal(
    struct ctpm2_context *context, const struct ctpm2_object *object, const struct ctpm2_approval *approval,
    const uint8_t *auth, uint8_t *secret, struct ctpm2_failure *failure);

#endif
