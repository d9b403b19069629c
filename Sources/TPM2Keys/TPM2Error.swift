/// Why a TPM did not seal or unseal a secret.
package enum TPM2Error: Error, Hashable, Sendable {
    /// This build has no TPM 2.0: it needs the trait `TPM2`.
    case notBuilt
    /// There is no TPM at the address, or it does not answer.
    case absent(address: String, detail: String)
    /// The secret was sealed by another TPM: the files were moved to another machine, or the machine got another TPM.
    case otherTPM
    /// The TPM was cleared since, so that it can unseal nothing of before.
    case cleared
    /// The secret was sealed by a TPM that was cleared since, or by another TPM: which of both is not known.
    case otherOrCleared
    /// These PCRs have other values than when the secret was sealed.
    case changedPCRs([Int])
    /// The TPM refuses its policy, although the PCRs have their values.
    case policyRefused
    /// The values of PCRs must be signed, and none of these files exists.
    case noSignatures([String])
    case unreadableSignatures(path: String, why: String)
    /// The file is not one of systemd-measure, or is too long.
    case malformedSignatures(path: String)
    /// The file has no signature by the public key of the keyslot.
    case otherSigner(path: String)
    /// The file has no signature of the values that these PCRs have.
    case unsignedPCRs([Int], path: String)
    /// The TPM has found that the signature is not one by the key.
    case refusedSignature(path: String)
    /// The TPM does not verify signatures by keys of this length.
    case unusablePublicKey
    case wrongPIN
    /// The TPM refuses all PINs for a time, after too many wrong ones.
    case lockedOut
    /// The secret that is kept is not the one that the TPM has made.
    case damaged
    /// The TPM keeps no PCRs with SHA-256.
    case noBank
    /// Other programs use the memory of the TPM at the moment, or it asks for another try.
    case busy(code: UInt32, call: String)
    /// Another failure of the TPM: its response code, and the function of tpm2-tss.
    case failed(code: UInt32, call: String)
}

extension TPM2Error: CustomStringConvertible {
    /// The event, as a sentence without its point.
    package var description: String {
        switch self {
        case .notBuilt: "this program was built without support for TPM 2.0 (the trait TPM2)"
        case .absent(let address, let detail): "there is no TPM at \(address), or it does not answer (\(detail))"
        case .otherTPM: "the secret was sealed by the TPM of another machine"
        case .cleared: "the TPM of this machine was cleared after the secret was sealed"
        case .otherOrCleared: "the secret was sealed by another TPM, or this TPM was cleared since"
        case .changedPCRs(let pcrs):
            pcrs.count == 1
                ? "PCR \(pcrs[0]) has another value than when the secret was sealed: the boot of the machine has changed"
                : "the PCRs \(pcrs.map(String.init).joined(separator: ", ")) have other values than when the secret was "
                    + "sealed: the boot of the machine has changed"
        case .policyRefused: "the TPM refused the policy of the secret"
        case .noSignatures(let paths):
            "the boot of the machine must be signed, and there is no file of signatures (\(paths.joined(separator: ", ")))"
        case .unreadableSignatures(let path, let why): "the signatures of \"\(path)\" were not read (\(why))"
        case .malformedSignatures(let path): "\"\(path)\" is no file of signatures by systemd-measure"
        case .otherSigner(let path): "\"\(path)\" has no signature by the public key of the keyslot"
        case .unsignedPCRs(let pcrs, let path):
            pcrs.count == 1
                ? "PCR \(pcrs[0]) has a value for which \"\(path)\" has no signature: this boot is not signed"
                : "the PCRs \(pcrs.map(String.init).joined(separator: ", ")) have values for which \"\(path)\" has no "
                    + "signature: this boot is not signed"
        case .refusedSignature(let path):
            "the TPM refused the signature in \"\(path)\": another key has made it, or the file is damaged"
        case .unusablePublicKey: "the TPM does not verify signatures by the public key of the signed PCRs"
        case .wrongPIN: "the TPM refused the PIN"
        case .lockedOut: "the TPM is locked out after too many wrong PINs, and refuses every PIN for a time"
        case .damaged: "what the keyslot keeps for the TPM is damaged"
        case .noBank: "the TPM has no PCRs with SHA-256"
        case .busy(let code, let call), .failed(let code, let call):
            "the TPM failed: \(call) returned 0x\(String(code, radix: 16))"
        }
    }
}
